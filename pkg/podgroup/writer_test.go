package podgroup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"
	schedulingv1alpha1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
)

var (
	conflict    = apierrors.NewConflict(podGroups, "a", errors.New("changed"))
	unavailable = apierrors.NewInternalError(errors.New("no quorum"))
)

// script returns the errors one after the other, then none.
func script(faults ...error) func(string) error {
	return func(string) error {
		if len(faults) == 0 {
			return nil
		}
		err := faults[0]
		faults = faults[1:]
		return err
	}
}

func TestWriterWritesTheLastStateAndOnlyWhatDiffers(t *testing.T) {
	b := newBench(t)
	group := b.create("a", "u1")
	b.Set(desired("a", "u1", "Scheduling", 1))
	last := desired("a", "u1", "Running", 2)
	last.Failed, last.StartTime = 1, &start
	b.Set(last)
	b.pass(batchPeriod)
	want := wrote("Running", 2, 0, 1)
	want["scheduleStartTime"] = "2026-03-01T12:00:00Z"
	if diff := cmp.Diff(want, group.status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	steps := []struct {
		name      string
		change    func(*Desired)
		wantCalls []string
	}{
		{"same again", func(*Desired) {}, nil},
		{"another part of a second", func(d *Desired) { later := start.Add(time.Millisecond); d.StartTime = &later }, nil},
		{"a count", func(d *Desired) { d.Running = 3 }, []string{"a/status"}},
		{"a reason", func(d *Desired) { d.Reason = "no room" }, []string{"a"}},
		{"both", func(d *Desired) { d.Reason, d.Phase = "", "Scheduled" }, []string{"a/status", "a"}},
	}
	for _, step := range steps {
		b.calls = nil
		step.change(&last)
		b.Set(last)
		b.pass(5 * time.Second)
		if diff := cmp.Diff(step.wantCalls, b.calls); diff != "" {
			t.Errorf("%s: writes (-want +got):\n%s", step.name, diff)
		}
	}
	if len(b.dirty) != 0 {
		t.Errorf("%d entries are still dirty", len(b.dirty))
	}
}

func TestCaseB032ZerosAreWritten(t *testing.T) {
	b := newBench(t)
	group := b.create("a", "u1")
	b.Set(desired("a", "u1", "Running", 2))
	b.pass(batchPeriod)
	b.Set(desired("a", "u1", "Pending", 0))
	b.pass(batchPeriod)
	if diff := cmp.Diff(wrote("Pending", 0, 0, 0), group.status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestCaseB033CountOf64MembersIsRightWhenHalfTheWritesConflict(t *testing.T) {
	b := newBench(t)
	group := b.create("a", "u1")
	n := 0
	b.fault = func(string) error {
		if n++; n%2 == 1 {
			return conflict
		}
		return nil
	}
	var setters sync.WaitGroup
	for i := range 64 {
		phase := "Scheduling"
		if i == 63 {
			phase = "Scheduled"
		}
		b.Set(desired("a", "u1", phase, int32(i+1)))
		if i%8 == 0 {
			b.pass(batchPeriod)
		}
		// Other groups are set at the same time.
		setters.Go(func() { b.Set(desired(fmt.Sprintf("other-%d", i), fmt.Sprintf("o%d", i), "Pending", 0)) })
	}
	setters.Wait()
	b.pass(10 * time.Second)
	if diff := cmp.Diff(wrote("Scheduled", 64, 0, 0), group.status); diff != "" {
		t.Errorf("status after 10 s (-want +got):\n%s", diff)
	}
}

func TestCaseB037FailedWritesAreTriedAgain(t *testing.T) {
	b := newBench(t)
	group := b.create("a", "u1")
	b.fault = script(unavailable, conflict, apierrors.NewTooManyRequests("slow down", 3))
	began := b.clock.Now()
	b.Set(desired("a", "u1", "Running", 2))
	b.pass(30 * time.Second)
	if diff := cmp.Diff(wrote("Running", 2, 0, 0), group.status); diff != "" {
		t.Errorf("status after %s (-want +got):\n%s", b.clock.Since(began), diff)
	}
	if want := []string{"a/status", "a/status", "a/status", "a/status", "a"}; !slices.Equal(b.calls, want) {
		t.Errorf("writes %q, want %q", b.calls, want)
	}

	// The next failure is the first again.
	b.calls, b.fault = nil, script(unavailable)
	b.Set(desired("a", "u1", "Finished", 0))
	b.pass(batchPeriod + 2*retryFirst)
	if want := []string{"a/status", "a/status", "a"}; !slices.Equal(b.calls, want) {
		t.Errorf("writes %q after a later failure, want %q", b.calls, want)
	}
}

func TestWriterWaitsBetweenTries(t *testing.T) {
	asked := apierrors.NewTooManyRequests("slow down", 7)
	tests := map[string]struct {
		fault error
		// wantTries counts the writes up to each of these times.
		wantTries map[time.Duration]int
	}{
		"internal error":      {unavailable, map[time.Duration]int{200 * time.Millisecond: 1, 10 * time.Second: 6, 5 * time.Minute: 16}},
		"the server says how": {asked, map[time.Duration]int{200 * time.Millisecond: 1, 7 * time.Second: 1, 8 * time.Second: 2}},
		"no right":            {apierrors.NewForbidden(podGroups, "a", errors.New("role")), map[time.Duration]int{10 * time.Second: 6}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.create("a", "u1")
			b.fault = func(string) error { return test.fault }
			b.Set(desired("a", "u1", "Running", 2))
			got := map[time.Duration]int{}
			for at := batchPeriod; at <= 5*time.Minute; at += batchPeriod {
				b.pass(batchPeriod)
				if _, asked := test.wantTries[at]; asked {
					got[at] = len(b.calls)
				}
			}
			if diff := cmp.Diff(test.wantTries, got); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

// The answer is lost, the write was not. Back at the old state, the Writer must not believe that it still stands.
func TestWriterDoesNotTrustTheStateBeforeAFailedWrite(t *testing.T) {
	b := newBench(t)
	group := b.create("a", "u1")
	b.Set(desired("a", "u1", "Scheduling", 1))
	b.pass(batchPeriod)
	b.late = script(context.DeadlineExceeded)
	b.Set(desired("a", "u1", "Running", 2))
	b.pass(batchPeriod)
	if diff := cmp.Diff(wrote("Running", 2, 0, 0), group.status); diff != "" {
		t.Fatalf("the fault did not happen (-want +got):\n%s", diff)
	}
	b.Set(desired("a", "u1", "Scheduling", 1))
	b.pass(time.Second)
	if diff := cmp.Diff(wrote("Scheduling", 1, 0, 0), group.status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestWriterDropsWhatIsGone(t *testing.T) {
	tests := map[string]struct {
		happen    func(b *bench)
		desired   Desired
		wantCalls []string
		wantReads int
	}{
		"deleted before the status": {
			func(b *bench) { b.remove("a") },
			desired("a", "u1", "Running", 2), []string{"a/status"}, 0,
		},
		"deleted before the annotation": {
			func(b *bench) {
				b.Set(desired("a", "u1", "Pending", 0))
				b.pass(batchPeriod)
				b.calls = nil
				b.remove("a")
			},
			waiting("a", "u1", "no room"), []string{"a"}, 1,
		},
		"replaced before the status": {
			func(b *bench) { b.create("a", "u2") },
			desired("a", "u1", "Running", 2), []string{"a/status"}, 0,
		},
		"replaced before the annotation": {
			func(b *bench) {
				b.Set(desired("a", "u1", "Pending", 0))
				b.pass(batchPeriod)
				b.calls = nil
				b.create("a", "u2")
			},
			waiting("a", "u1", "no room"), []string{"a"}, 1,
		},
		"forgotten": {
			func(b *bench) { b.Set(desired("a", "u1", "Running", 1)); b.Forget("u1"); b.remove("a") },
			desired("b", "u3", "Running", 2), []string{"b/status", "b"}, 0,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.create("a", "u1")
			b.create("b", "u3")
			test.happen(b)
			b.Set(test.desired)
			b.pass(time.Minute)
			if diff := cmp.Diff(test.wantCalls, b.calls); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if b.reads != test.wantReads {
				t.Errorf("%d reads, want %d", b.reads, test.wantReads)
			}
			if o := b.groups["a"]; o != nil && o.uid == "u2" && len(o.annotations) > 0 {
				t.Errorf("the new group got %v", o.annotations)
			}
		})
	}
}

// B26: a group is deleted and submitted again while a write for the old one is on its way.
func TestCaseB026StatusThatReachedTheNextGroupIsPutRight(t *testing.T) {
	b := newBench(t)
	b.create("a", "u1")
	b.Set(desired("a", "u1", "Running", 5))
	group := b.create("a", "u2")
	b.fault = func(string) error {
		// The new group is heard of while the write is on its way; what is seen of it is older than that write.
		b.fault = nil
		b.Seen(Parse(&schedulingv1alpha1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a", UID: "u2"},
			Status:     schedulingv1alpha1.PodGroupStatus{Phase: "Pending"},
		}))
		b.Set(desired("a", "u2", "Pending", 0))
		return nil
	}
	b.pass(batchPeriod)
	if diff := cmp.Diff(wrote("Running", 5, 0, 0), group.status); diff != "" {
		t.Fatalf("the fault did not happen (-want +got):\n%s", diff)
	}
	b.pass(batchPeriod)
	if diff := cmp.Diff(wrote("Pending", 0, 0, 0), group.status); diff != "" {
		t.Errorf("status of the new group (-want +got):\n%s", diff)
	}
}

func TestReasonIsShownReportedOnceAndRemoved(t *testing.T) {
	b := newBench(t)
	group := b.create("a", "u1")
	group.annotations["owner"] = "me"
	for range 3 {
		b.Set(waiting("a", "u1", "2 of 8 GPUs are free"))
		b.pass(time.Second)
	}
	want := map[string]string{"owner": "me", v1alpha1.WaitingReasonAnnotation: "2 of 8 GPUs are free"}
	if diff := cmp.Diff(want, group.annotations); diff != "" {
		t.Errorf("annotations while it waits (-want +got):\n%s", diff)
	}
	b.Set(waiting("a", "u1", "3 of 8 GPUs are free")) // does not stand
	b.pass(batchPeriod)
	b.Set(waiting("a", "u1", "4 of 8 GPUs are free"))
	b.pass(time.Second)
	b.Set(desired("a", "u1", "Running", 8))
	b.pass(batchPeriod)
	if diff := cmp.Diff(map[string]string{"owner": "me"}, group.annotations); diff != "" {
		t.Errorf("annotations once it runs (-want +got):\n%s", diff)
	}
	b.Set(waiting("a", "u1", "4 of 8 GPUs are free"))
	b.pass(time.Second)
	wantEvents := []string{
		"a u1 GangWaiting Scheduling: 2 of 8 GPUs are free",
		"a u1 GangWaiting Scheduling: 4 of 8 GPUs are free",
		"a u1 GangWaiting Scheduling: 4 of 8 GPUs are free",
	}
	if diff := cmp.Diff(wantEvents, b.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if !slices.IsSorted(b.versions) || len(slices.Compact(b.versions)) != len(wantEvents) || b.versions[0] == "" {
		t.Errorf("versions of the group in the events are %q: with equal ones the later events are lost", b.versions)
	}
}

func TestReasonThatNeverStandsIsReportedNowAndThen(t *testing.T) {
	b := newBench(t)
	b.create("a", "u1")
	for i := range 100 {
		b.Set(waiting("a", "u1", fmt.Sprintf("%d of 800 GPUs are free", i)))
		b.pass(batchPeriod)
	}
	if len(b.events) != 1 {
		t.Errorf("events in 20 s: %q, want one, 10 s after the first of these reasons", b.events)
	}
}

func TestStatusOfAnotherControllerIsLeftAlone(t *testing.T) {
	b := newBench(t)
	group := b.create("a", "u1")
	theirs := wrote("Running", 3, 0, 0)
	group.status = theirs
	d := waiting("a", "u1", "no room")
	d.Phase, d.Running, d.StartTime = "", 5, &start
	b.Seen(Parse(&schedulingv1alpha1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a", UID: "u1"},
		Status:     schedulingv1alpha1.PodGroupStatus{Phase: "Running", Running: 3},
	}))
	b.fault = script(unavailable)
	b.Set(d)
	b.pass(5 * time.Second)
	d.Reason, d.Running = "", 6
	b.Set(d)
	b.pass(5 * time.Second)
	if diff := cmp.Diff([]string{"a", "a", "a"}, b.calls); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(theirs, group.status); diff != "" || len(group.annotations) != 0 {
		t.Errorf("annotations %v; status (-theirs +got):\n%s", group.annotations, diff)
	}
	if len(b.dirty) != 0 {
		t.Errorf("%d entries are still dirty", len(b.dirty))
	}
}

func TestNextLeaderWritesOnlyWhatDiffersFromWhatItSaw(t *testing.T) {
	seen := &schedulingv1alpha1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "a", UID: "u1",
			Annotations: map[string]string{v1alpha1.WaitingReasonAnnotation: "no room"},
		},
		Status: schedulingv1alpha1.PodGroupStatus{Phase: "Pending"},
	}
	tests := map[string]struct {
		desired    Desired
		wantCalls  []string
		wantEvents int
	}{
		"same":         {waiting("a", "u1", "no room"), nil, 0},
		"runs":         {desired("a", "u1", "Running", 2), []string{"a/status", "a"}, 0},
		"other reason": {waiting("a", "u1", "no node"), []string{"a"}, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.create("a", "u1")
			b.Seen(Parse(seen))
			b.Set(test.desired)
			b.pass(time.Second)
			if diff := cmp.Diff(test.wantCalls, b.calls); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if len(b.events) != test.wantEvents {
				t.Errorf("events %q, want %d", b.events, test.wantEvents)
			}
			// What an informer says later may be older than what was written.
			b.calls = nil
			b.Seen(Parse(seen))
			b.Set(test.desired)
			b.pass(time.Second)
			if len(b.calls) != 0 {
				t.Errorf("writes %q after an old event", b.calls)
			}
		})
	}
}

// announcing is a clock that says when somebody has begun to wait for it.
type announcing struct {
	*testingclock.FakeClock
	tickers chan<- struct{}
}

func (c announcing) NewTicker(d time.Duration) clock.Ticker {
	ticker := c.FakeClock.NewTicker(d)
	c.tickers <- struct{}{}
	return ticker
}

func TestRunWritesUntilItsContextEnds(t *testing.T) {
	b := newBench(t)
	b.create("a", "u1")
	written := make(chan string, 8)
	b.fault = func(call string) error { written <- call; return nil }
	tickers := make(chan struct{}, 1)
	b.Writer.clock = announcing{b.clock, tickers}
	ctx, stop := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { b.Run(ctx) })
	<-tickers
	b.Set(desired("a", "u1", "Running", 2))
	b.clock.Step(batchPeriod)
	if call := <-written; call != "a/status" {
		t.Errorf("first write is %s", call)
	}
	<-written
	stop()
	done.Wait()
}
