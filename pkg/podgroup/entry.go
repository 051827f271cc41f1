package podgroup

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
)

const (
	// parkDelay is how long a reason must stand before it is reported and written to parked pods. The sentence changes
	// with every pod that arrives, and a gang that arrives within this time costs no such write.
	parkDelay = time.Second
	// parkLimit is how long a reason that never stands can put off those writes.
	parkLimit = 10 * time.Second
	// retryFirst and retryMax bound the wait after a failed write, which doubles from one to the next.
	retryFirst = 250 * time.Millisecond
	retryMax   = 30 * time.Second
)

// entry is what the Writer knows of one group. A group that was only seen has no desired state.
type entry struct {
	uid     gang.GroupUID
	wanted  bool
	desired Desired

	// shown is what the API shows, as last seen or written. It is nil if that is not known, which is so from a failed
	// write to the next good one.
	shown *shown
	// layout is the layout that the API shows, as last seen or written.
	layout string
	// since is when something had to be written that was not before, or the last write if that was later.
	since time.Time
	// tried is true once a write began. What an informer delivers afterwards may be older than that write.
	tried bool
	// reported is the reason of the last event, unsaid when the reason became another one.
	reported string
	unsaid   time.Time
	// version is the resource version at which the API shows the reason, as last seen or written.
	version string
	retry   retry

	// told maps a parked pod to the reason that it shows.
	told map[types.UID]string
	// stands is when the reason became what it is, owed when a parked pod first showed another one.
	stands, owed time.Time
	parkedRetry  retry
}

// shown is what a PodGroup shows of its gang.
type shown struct {
	status status
	reason string
}

// retry puts off what failed.
type retry struct {
	failures int
	at       time.Time
}

// failed notes a failure and returns the number of failures in a row. The server may ask for a longer wait.
func (r *retry) failed(now time.Time, asked time.Duration) int {
	r.failures++
	r.at = now.Add(max(asked, wait(r.failures)))
	return r.failures
}

// wait doubles from retryFirst to retryMax.
func wait(failures int) time.Duration {
	d := retryFirst
	for range failures - 1 {
		if d *= 2; d >= retryMax {
			return retryMax
		}
	}
	return d
}

func (r *retry) due(now time.Time) bool { return !r.at.After(now) }

// set takes a new desired state.
func (e *entry) set(d Desired, now time.Time) {
	if !e.wanted || e.desired.Reason != d.Reason {
		e.stands = now
	}
	e.desired, e.wanted = d, true
	if len(e.told) == 0 {
		return
	}
	// Who left the park is shown other things by the scheduling cycle, so a return is written anew.
	kept := make(map[types.UID]string, len(e.told))
	for _, pod := range d.Parked {
		if reason, has := e.told[pod.UID]; has {
			kept[pod.UID] = reason
		}
	}
	e.told = kept
}

// missing are the writes to a PodGroup that are missing.
type missing struct{ status, reason, layout bool }

func (m missing) any() bool { return m.status || m.reason || m.layout }

// writes says which writes to the PodGroup are missing.
func (e *entry) writes() missing {
	if !e.wanted || e.desired.Absent {
		return missing{}
	}
	ours := e.desired.Phase != ""
	m := missing{status: ours, reason: true, layout: e.desired.Layout != "" && e.desired.Layout != e.layout}
	if e.shown != nil {
		m.status, m.reason = ours && e.shown.status != e.desired.status(), e.shown.reason != e.desired.Reason
	}
	return m
}

// ends reports whether members have ended of whom the API does not show it. Once they are deleted nothing else tells of them.
func (e *entry) ends() bool {
	var s status
	if e.shown != nil {
		s = e.shown.status
	}
	return e.desired.Phase != "" && (s.succeeded != e.desired.Succeeded || s.failed != e.desired.Failed)
}

// news says whether the reason is to be reported now, and whether it will have to be once it stands.
func (e *entry) news(now time.Time) (due, pending bool) {
	if !e.wanted || e.desired.Absent || e.reported == e.desired.Reason || e.desired.Reason == "" {
		if e.wanted && e.desired.Reason == "" {
			e.reported = ""
		}
		e.unsaid = time.Time{}
		return false, false
	}
	if e.unsaid.IsZero() {
		e.unsaid = now
	}
	if now.Sub(e.stands) < parkDelay && now.Sub(e.unsaid) < parkLimit {
		return false, true
	}
	e.reported, e.unsaid = e.desired.Reason, time.Time{}
	return true, false
}

// parked returns up to limit parked pods that do not show the reason, and whether there are any. It returns none while
// the reason is too young.
func (e *entry) parked(now time.Time, limit int) (pods []ParkedPod, owed bool) {
	if !e.wanted || e.desired.Reason == "" {
		e.owed = time.Time{}
		return nil, false
	}
	for _, pod := range e.desired.Parked {
		if e.told[pod.UID] == e.desired.Reason {
			continue
		}
		owed = true
		if len(pods) == limit {
			break
		}
		pods = append(pods, pod)
	}
	if !owed {
		e.owed = time.Time{}
		return nil, false
	}
	if e.owed.IsZero() {
		e.owed = now
	}
	young := now.Sub(e.stands) < parkDelay && now.Sub(e.owed) < parkLimit
	if young || !e.parkedRetry.due(now) {
		return nil, true
	}
	return pods, true
}
