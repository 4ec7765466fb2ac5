// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package bootstrap_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/hostnet"
)

// A disk can hold any checkpoint: a truncated one, or one of another instance. A boot with it ends, reports only
// interfaces of the instance, and does not change the primary link.
func FuzzCheckpoint(f *testing.F) {
	const one = `{"network":"multus","eniID":"eni-1","macAddress":"` + mac + `","deviceIndex":1,"addresses":["10.0.0.4/32"]}`
	const primary = `{"network":"multus","eniID":"eni-0","macAddress":"` + primaryMAC + `","deviceIndex":1}`
	f.Add([]byte(`{"instanceID":"` + id + `","interfaces":[` + one + `]}`))
	f.Add([]byte(`{"instanceID":"` + id + `","interfaces":[` + one + `,` + one + `],"lacking":["n3"]}`))
	f.Add([]byte(`{"instanceID":"` + id + `","interfaces":[` + primary + `]}`))
	f.Add([]byte(`{"instanceID":"` + id + `","interfaces":[{"network":"a b/..","eniID":"eni-1","macAddress":"` + mac + `","mtu":-1,"sysctls":{"x":9}}]}`))
	f.Add([]byte(`{"instanceID":"i-00000000000000000","interfaces":[` + one))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, checkpoint []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "bootstrap.json"), checkpoint, 0o600); err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			i := newInstance()
			i.metadata.Interfaces = []eni.Interface{{ID: "eni-0", MAC: primaryMAC}, {ID: "eni-1", MAC: mac}}
			before := i.kernel.Facts().Links[0]
			report := i.boot(t, dir)
			if len(report.Interfaces) == 0 {
				t.Errorf("the boot has no interfaces: %+v", report)
			}
			for _, made := range report.Interfaces {
				if shown := i.metadata.ByMAC(made.MACAddress); shown == nil || shown.ID != made.ENIID {
					t.Errorf("%+v is no interface of the instance", made)
				}
			}
			if diff := cmp.Diff(before, i.kernel.Facts().Links[0], cmpopts.EquateEmpty(), cmp.AllowUnexported(hostnet.LinkFacts{})); diff != "" {
				t.Errorf("the primary link changed (-before +after):\n%s", diff)
			}
		})
	})
}
