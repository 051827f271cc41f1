package podgroup

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
)

// stubborn is the number of failures in a row at which a person is told: about 8 s after the first.
const stubborn = 6

// record takes in what came of a batch. A group may have been set, forgotten or replaced while the batch was written.
func (w *Writer) record(now time.Time, writes []groupWrite, pods []podWrite) {
	w.mu.Lock()
	troubles := w.recordGroups(now, writes)
	troubles = append(troubles, w.recordPods(now, pods)...)
	w.mu.Unlock()
	for _, t := range troubles {
		if t.failures == stubborn {
			w.logger.Error(t.err, "The API shows an old state of the gang, and writes keep failing", "podGroup", t.key, "failures", t.failures)
		} else {
			w.logger.V(2).Info("Write failed and is tried again", "podGroup", t.key, "failures", t.failures, "err", t.err)
		}
	}
}

// trouble is a failure to log once the lock is released.
type trouble struct {
	key      types.NamespacedName
	err      error
	failures int
}

func (w *Writer) recordGroups(now time.Time, writes []groupWrite) (troubles []trouble) {
	for i := range writes {
		g := &writes[i]
		key := g.desired.key()
		if e := w.entries[key]; e != nil && g.stranger != "" && e.uid == g.stranger {
			// A late write for a group that is gone hit this one.
			e.shown, e.tried = nil, true
			if e.wanted {
				w.dirty[key] = struct{}{}
			}
		}
		e := w.entries[key]
		if e == nil || e.uid != g.desired.UID {
			continue
		}
		switch g.outcome {
		case outcomeGone:
			w.drop(e.uid)
		case outcomeWritten:
			e.shown = &shown{status: g.desired.status(), reason: g.desired.Reason}
			if g.missing.reason {
				e.version = g.version
			}
			if g.desired.Layout != "" {
				e.layout = g.desired.Layout
			}
			e.retry, e.since = retry{}, now // what is to be written next waits from now on
		default:
			e.shown = nil
			troubles = append(troubles, trouble{key, g.err, e.retry.failed(now, asked(g.err))})
		}
	}
	return troubles
}

func (w *Writer) recordPods(now time.Time, pods []podWrite) (troubles []trouble) {
	failed := map[gang.GroupUID]error{}
	for i := range pods {
		p := &pods[i]
		e := w.entries[w.names[p.group]]
		if e == nil || e.uid != p.group {
			continue
		}
		if p.outcome == outcomeFailed {
			if failed[p.group] == nil {
				failed[p.group] = p.err
			}
			continue
		}
		if e.told == nil {
			e.told = map[types.UID]string{}
		}
		e.told[p.pod.UID] = p.reason
	}
	for i := range pods {
		uid := pods[i].group
		e := w.entries[w.names[uid]]
		if e == nil || e.uid != uid {
			continue
		}
		err, has := failed[uid]
		if !has {
			e.parkedRetry = retry{}
			continue
		}
		if err != nil {
			troubles = append(troubles, trouble{w.names[uid], err, e.parkedRetry.failed(now, asked(err))})
			failed[uid] = nil
		}
	}
	return troubles
}

// asked is the wait that the server wants before the next try.
func asked(err error) time.Duration {
	if seconds, has := apierrors.SuggestsClientDelay(err); has {
		return time.Duration(seconds) * time.Second
	}
	return 0
}
