package ledger

import "sync"

// watchers are callers that wait for the end of a job.
type watchers struct {
	mu   sync.Mutex
	byID map[string][]chan struct{}
}

func (w *watchers) add(id string) (<-chan struct{}, func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byID == nil {
		w.byID = map[string][]chan struct{}{}
	}
	c := make(chan struct{})
	w.byID[id] = append(w.byID[id], c)
	return c, func() { w.remove(id, c) }
}

func (w *watchers) remove(id string, c chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.byID[id]
	for i := range all {
		if all[i] == c {
			all[i] = all[len(all)-1]
			all = all[:len(all)-1]
			break
		}
	}
	if len(all) == 0 {
		delete(w.byID, id)
	} else {
		w.byID[id] = all
	}
}

func (w *watchers) wake(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.byID[id] {
		close(c)
	}
	delete(w.byID, id)
}

func (w *watchers) wakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, all := range w.byID {
		for _, c := range all {
			close(c)
		}
		delete(w.byID, id)
	}
}
