// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ship_test

import "strings"

func (s *site) deleteInterfacesFirst() {
	s.install()
	id := s.attach()
	s.deleteInterfaces(id)
	s.takeOver(id)
	s.kubectl("delete", "crd", "nodeenis.networking.k8s.aws", "--timeout=90s")
	s.runJobs()
	s.helm("uninstall", release)
	s.stop()
	s.nothingIsLeft()
}

func (s *site) restartWithoutInterfaces() {
	s.install()
	id := s.attach()
	s.deleteInterfaces(id)
	s.stop()
	s.runAll()
	s.eventually("the controller names what is missing", func() bool { return strings.Contains(s.logs(), `"missing":"NetworkInterface"`) })
	s.takeOver(id)
	s.runJobs()
	s.helm("uninstall", release)
	s.stop()
	s.nothingIsLeft()
}

// deleteInterfaces deletes the definition of NetworkInterfaces: the objects are let go, and the live interface stays.
func (s *site) deleteInterfaces(id string) {
	s.Helper()
	s.kubectl("delete", "crd", "networkinterfaces.networking.k8s.aws", "--timeout=90s")
	if s.owned(id) != "attached" {
		s.Errorf("without its object, a live interface is %q", s.owned(id))
	}
}

// takeOver applies the definition again: a new object takes the live interface over, and the agent answers for it.
func (s *site) takeOver(id string) {
	s.Helper()
	s.helm("upgrade", release, s.packaged(chart, "0.2.0"), "--reuse-values")
	s.eventually("a new object has the interface", func() bool {
		return s.kubectl("get", "eni", "-o", "jsonpath={.items[*].status.eniID}") == id
	})
	s.eventually("the agent answers for it", func() bool {
		return s.kubectl("get", "eni", "-o", "jsonpath={.items[*].status.node.agent.bootID}") != ""
	})
	if s.owned(id) != "attached" {
		s.Errorf("the live interface is %q", s.owned(id))
	}
}
