package engine

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

var podResource = schema.GroupResource{Resource: "pods"}

// answer makes an onPost that always answers err and commits nothing.
func answer(err error) func(*server, int, *v1.Binding) error {
	return func(*server, int, *v1.Binding) error { return err }
}

type bindCase struct {
	onPost func(*server, int, *v1.Binding) error
	getErr error
	// wantErr picks the error; nil stands for success.
	wantErr func(error) bool
	// wantStage is the pod's stage after Bind, wantHeld whether it still holds its card after Unreserve's Forget.
	wantStage ledger.Stage
	wantHeld  bool
	wantPosts int
}

func unknown(err error) bool { return errors.Is(err, ErrBindUnknown) }

// final matches an error that is the server's word and no open question.
func final(match func(error) bool) func(error) bool {
	return func(err error) bool { return match(err) && !unknown(err) }
}

func boundCases() map[string]bindCase {
	return map[string]bindCase{
		"success": {
			onPost:    func(s *server, _ int, b *v1.Binding) error { s.commit(b); return nil },
			wantStage: ledger.StageBound, wantHeld: true, wantPosts: 1,
		},
		"committed, answer lost": {
			onPost:    func(s *server, _ int, b *v1.Binding) error { s.commit(b); return errLost },
			wantStage: ledger.StageBound, wantHeld: true, wantPosts: 1,
		},
		"committed, the repeat is refused": {
			onPost: func(s *server, _ int, b *v1.Binding) error {
				s.commit(b)
				return apierrors.NewConflict(podResource, "p", errors.New("already assigned to node n1"))
			},
			wantStage: ledger.StageBound, wantHeld: true, wantPosts: 1,
		},
		"answer lost twice, then committed": {
			onPost: func(s *server, n int, b *v1.Binding) error {
				if n < 3 {
					return errLost
				}
				s.commit(b)
				return nil
			},
			wantStage: ledger.StageBound, wantHeld: true, wantPosts: 3,
		},
		"answer lost and never committed": {
			onPost: answer(errLost), wantErr: unknown,
			wantStage: ledger.StageUnknown, wantHeld: true, wantPosts: bindRounds,
		},
		"server gave up waiting": {
			onPost: answer(apierrors.NewTimeoutError("request timed out", 1)), wantErr: unknown,
			wantStage: ledger.StageUnknown, wantHeld: true, wantPosts: bindRounds,
		},
		"unavailable": {
			onPost: answer(apierrors.NewServiceUnavailable("shutting down")), wantErr: unknown,
			wantStage: ledger.StageUnknown, wantHeld: true, wantPosts: bindRounds,
		},
		"500: a server that lost sight of its own write": {
			onPost: answer(apierrors.NewInternalError(errors.New("etcdserver: request timed out"))), wantErr: unknown,
			wantStage: ledger.StageUnknown, wantHeld: true, wantPosts: bindRounds,
		},
		"answer lost, then refused: the first may still be under way": {
			onPost: func(_ *server, n int, _ *v1.Binding) error {
				if n == 1 {
					return errLost
				}
				return apierrors.NewForbidden(podResource, "p", errors.New("no right"))
			},
			wantErr: unknown, wantStage: ledger.StageUnknown, wantHeld: true, wantPosts: bindRounds,
		},
		"unreadable, committed or not": {
			onPost: answer(errLost), getErr: errLost, wantErr: unknown,
			wantStage: ledger.StageUnknown, wantHeld: true, wantPosts: bindRounds,
		},
		"unreadable, though the server answered": {
			onPost: answer(apierrors.NewConflict(podResource, "p", errors.New("already assigned"))), getErr: errLost, wantErr: unknown,
			wantStage: ledger.StageUnknown, wantHeld: true, wantPosts: bindRounds,
		},
	}
}

func failedCases() map[string]bindCase {
	refused := func(err error, match func(error) bool) bindCase {
		return bindCase{onPost: answer(err), wantErr: final(match), wantStage: ledger.StageAssumed, wantPosts: 1}
	}
	isLost := func(err error) bool { return errors.Is(err, errLost) }
	return map[string]bindCase{
		"403": refused(apierrors.NewForbidden(podResource, "p", errors.New("no right")), apierrors.IsForbidden),
		"409": refused(apierrors.NewConflict(podResource, "p", errors.New("being deleted")), apierrors.IsConflict),
		"429": refused(apierrors.NewTooManyRequestsError("later"), apierrors.IsTooManyRequests),
		"bound to another node": {
			onPost: func(s *server, _ int, _ *v1.Binding) error {
				s.pod.Spec.NodeName = "n2"
				return apierrors.NewConflict(podResource, "p", errors.New("already assigned to node n2"))
			},
			wantErr: final(apierrors.IsConflict), wantStage: ledger.StageAssumed, wantPosts: 1,
		},
		"bound to our node with another record": {
			onPost: func(s *server, _ int, _ *v1.Binding) error {
				s.pod.Spec.NodeName = "n1"
				s.pod.Annotations[v1alpha1.AllocationAnnotation] = "{}"
				return errLost
			},
			wantErr: final(isLost), wantStage: ledger.StageAssumed, wantPosts: 1,
		},
		"pod gone": {
			onPost:  func(s *server, _ int, _ *v1.Binding) error { s.pod = nil; return errLost },
			wantErr: final(isLost), wantStage: ledger.StageAssumed, wantPosts: 1,
		},
		"pod replaced by one of the same name": {
			onPost: func(s *server, _ int, b *v1.Binding) error {
				s.commit(b)
				s.pod.UID = "u2"
				return errLost
			},
			wantErr: final(isLost), wantStage: ledger.StageAssumed, wantPosts: 1,
		},
	}
}

func TestBind(t *testing.T) {
	for kind, cases := range map[string]map[string]bindCase{"keeps": boundCases(), "fails": failedCases()} {
		for name, tt := range cases {
			t.Run(kind+"/"+name, func(t *testing.T) {
				b := newBench(t, clock.RealClock{})
				b.server.onPost, b.server.getErr = tt.onPost, tt.getErr
				tt.check(t, b, b.Bind(b.ctx, b.handle, b.binding, b.holding.Cards))
			})
		}
	}
}

func (tt *bindCase) check(t *testing.T, b *bench, err error) {
	t.Helper()
	switch {
	case tt.wantErr == nil && err != nil:
		t.Errorf("Bind: %v, want success", err)
	case tt.wantErr != nil && (err == nil || !tt.wantErr(err)):
		t.Errorf("Bind: %v: not the error wanted", err)
	}
	if got := b.stage(); got != tt.wantStage {
		t.Errorf("%v after Bind, want %v", got, tt.wantStage)
	}
	if b.server.posts != tt.wantPosts {
		t.Errorf("%d Bindings were sent, want %d", b.server.posts, tt.wantPosts)
	}
	if err != nil {
		b.ledger.Forget(podUID) // what Unreserve does
	}
	wantFree := 8
	if tt.wantHeld {
		wantFree = 7
	}
	if got := b.ledger.Node("n1").Free.Len(); got != wantFree {
		t.Errorf("%d cards are free after Unreserve, want %d", got, wantFree)
	}
	if open := len(b.openSuspects()) == 1; open != (tt.wantStage == ledger.StageUnknown) {
		t.Errorf("the resolve loop has the pod: %t", open)
	}
	if err := b.ledger.Check(); err != nil {
		t.Error(err)
	}
}

// TestBindSettledByAnEvent: a pod event that comes before the failed Bind returns has the last word.
func TestBindSettledByAnEvent(t *testing.T) {
	b := newBench(t, clock.RealClock{})
	b.server.getErr = errLost
	b.server.onPost = func(*server, int, *v1.Binding) error {
		b.ledger.Release(podUID)
		return errLost
	}
	if err := b.Bind(b.ctx, b.handle, b.binding, b.holding.Cards); !unknown(err) {
		t.Errorf("Bind: %v, want ErrBindUnknown", err)
	}
	if b.stage() != 0 || len(b.openSuspects()) != 0 {
		t.Errorf("stage %v, %d suspects for a pod that is gone", b.stage(), len(b.openSuspects()))
	}
}

// TestBindOfACancelledCycle: the context of the cycle ends while the Binding is under way, for instance since the pod is
// deleted. No new Binding is sent, but the pod is read back all the same.
func TestBindOfACancelledCycle(t *testing.T) {
	tests := map[string]struct {
		commits   bool
		wantErr   bool
		wantStage ledger.Stage
	}{
		"committed":     {true, false, ledger.StageBound},
		"not committed": {false, true, ledger.StageUnknown},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, clock.RealClock{})
			ctx, cancel := context.WithCancel(b.ctx)
			defer cancel()
			var posts atomic.Int32
			answering := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				b.server.mu.Lock()
				defer b.server.mu.Unlock()
				if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/binding") {
					posts.Add(1)
					if _, err := io.Copy(io.Discard, r.Body); err != nil { // a hang-up shows only once the body is read
						t.Error(err)
					}
					if tt.commits {
						b.server.commit(b.binding)
					}
					cancel()
					<-r.Context().Done() // the client hangs up
					return
				}
				w.Header().Set("Content-Type", "application/json")
				pod := b.server.pod.DeepCopy()
				pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
				if err := json.NewEncoder(w).Encode(pod); err != nil {
					t.Error(err)
				}
			}))
			defer answering.Close()
			client, err := kubernetes.NewForConfig(&rest.Config{Host: answering.URL})
			if err != nil {
				t.Fatal(err)
			}
			err = b.Bind(ctx, newHandle(b.ctx, t, client), b.binding, b.holding.Cards)
			if (err != nil) != tt.wantErr || err != nil && !unknown(err) {
				t.Errorf("Bind: %v", err)
			}
			if got := b.stage(); got != tt.wantStage {
				t.Errorf("%v after Bind, want %v", got, tt.wantStage)
			}
			if got := posts.Load(); got != 1 {
				t.Errorf("%d Bindings were sent, want 1", got)
			}
		})
	}
}
