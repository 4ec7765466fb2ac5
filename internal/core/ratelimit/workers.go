// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ratelimit

// workerClasses are the classes of work with a semaphore of their own. Joining nodes have the widest one; those of the
// other classes have half or a quarter of it.
var workerClasses = [...]struct {
	Class
	divisor int
}{{Attach, 1}, {Move, 2}, {Removal, 2}, {Update, 4}}

// Workers bounds how many nodes are worked on at a time, for each class of work and for deferred work. More workers
// would only wait for EC2's request rates. A node that waits occupies no worker and keeps no read of EC2 that becomes
// stale. After a restart all nodes ask again, in the order of their priority. It is not safe for concurrent use.
type Workers struct {
	byClass  map[Class]*PrioritySemaphore
	deferred *PrioritySemaphore
	// running has the nodes whose deferred work runs, and whether the node asked for more meanwhile.
	running map[string]bool
}

// NewWorkers returns workers for the given number of joining nodes at a time.
func NewWorkers(joining int) *Workers {
	w := &Workers{byClass: map[Class]*PrioritySemaphore{}, deferred: NewPrioritySemaphore(max(1, joining)),
		running: map[string]bool{}}
	for _, c := range workerClasses {
		w.byClass[c.Class] = NewPrioritySemaphore(max(1, joining/c.divisor))
	}
	return w
}

// Width returns how many nodes can be worked on at a time, apart from deferred work.
func (w *Workers) Width() (sum int) {
	for _, s := range w.byClass {
		sum += s.width
	}
	return sum
}

// Holds reports whether a node has a worker of any kind.
func (w *Workers) Holds(node string) bool {
	holds := w.deferred.Holds(node)
	for _, s := range w.byClass {
		holds = holds || s.Holds(node)
	}
	return holds
}

// TryAcquire requests a worker of the rank's class, and reports whether the node has it. If not, the node waits, and a
// later [Workers.Release] returns its name.
func (w *Workers) TryAcquire(rank Rank) bool { return w.byClass[rank.Class].TryAcquire(rank) }

// TryAcquireDeferred is TryAcquire for deferred work. Deferred work of one node runs once at a time; a request
// meanwhile makes [Workers.EndDeferred] return again.
func (w *Workers) TryAcquireDeferred(rank Rank) bool {
	if _, running := w.running[rank.Name]; running {
		w.running[rank.Name] = true
		return false
	}
	return w.deferred.TryAcquire(rank)
}

// BeginDeferred is TryAcquireDeferred, and records that the work begins.
func (w *Workers) BeginDeferred(rank Rank) bool {
	if !w.TryAcquireDeferred(rank) {
		return false
	}
	w.running[rank.Name] = false
	return true
}

// EndDeferred ends a node's deferred work. It returns whether the node asked for more meanwhile, and the nodes that get
// workers: the caller must reconcile them.
func (w *Workers) EndDeferred(node string) (again bool, admitted []string) {
	again = w.running[node]
	delete(w.running, node)
	return again, w.deferred.Release(node)
}

// Release ends the work of a node, except running deferred work. It returns the nodes that get workers: the caller must
// reconcile them.
func (w *Workers) Release(node string) (admitted []string) {
	for _, c := range workerClasses {
		admitted = append(admitted, w.byClass[c.Class].Release(node)...)
	}
	if _, running := w.running[node]; !running {
		admitted = append(admitted, w.deferred.Release(node)...)
	}
	return admitted
}
