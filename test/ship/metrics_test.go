// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ship_test

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestMetricsAreForReaders scrapes a controller that is installed with metrics.secure, as several people.
func TestMetricsAreForReaders(t *testing.T) {
	s := newSite(t)
	s.forgetDefinitions() // the cluster of tests has them
	s.helm("install", release, s.packaged(chart, "0.1.0"), "--set", "awsRegion=us-east-1", "--set", "metrics.secure=true")
	s.kubectl("create", "serviceaccount", "prometheus")
	s.kubectl("create", "serviceaccount", "stranger")
	s.kubectl("create", "clusterrolebinding", "multieni-metrics-reader", "--clusterrole=multieni-metrics-reader", "--serviceaccount=default:prometheus")

	var controller appsv1.Deployment
	s.must(s.kube.Get(t.Context(), client.ObjectKey{Namespace: "eni-controller-system", Name: "eni-controller"}, &controller))
	address := unusedAddress(t)
	s.run("controller", controller.Namespace, controller.Spec.Template.Spec, append(quick, "--metrics-bind-address="+address)...)
	s.eventually("the metrics are served", func() bool { return scrape(t, "https://"+address, "").status != 0 })

	for name, tc := range map[string]struct {
		url, token string
		want       int
	}{
		"nobody": {"https://" + address, "", http.StatusUnauthorized},
		// controller-runtime's filter answers with this status if the API server calls a token invalid.
		"a forged token":         {"https://" + address, "e30.e30.e30", http.StatusInternalServerError},
		"an account without it":  {"https://" + address, s.kubectl("create", "token", "stranger"), http.StatusForbidden},
		"a reader":               {"https://" + address, s.kubectl("create", "token", "prometheus"), http.StatusOK},
		"a reader without HTTPS": {"http://" + address, s.kubectl("create", "token", "prometheus"), http.StatusBadRequest},
	} {
		got := scrape(t, tc.url, tc.token)
		if got.status != tc.want || strings.Contains(got.body, "\nmultieni_") != (tc.want == http.StatusOK) {
			t.Errorf("%s: %d, want %d, of\n%.300s", name, got.status, tc.want, got.body)
		}
	}
}

// scraped is the answer to a scrape; its status is 0 if there is none.
type scraped struct {
	status int
	body   string
}

func scrape(t *testing.T, url, token string) scraped {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	// The controller signs its certificate itself.
	selfSigned := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true} //nolint:gosec // see above
	response, err := (&http.Client{Transport: selfSigned}).Do(request)
	if err != nil {
		return scraped{}
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body) // a TLS server resets the connection of a client that uses HTTP
	return scraped{response.StatusCode, string(body)}
}

func unusedAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
