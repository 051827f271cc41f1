package observe

import (
	"errors"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
	"github.com/gputopology/gpu-topology-scheduler/pkg/record"
	"github.com/gputopology/gpu-topology-scheduler/pkg/request"
)

const (
	reasonUnreadable = "GPURecordUnreadable"
	reasonEdited     = "GPURecordEdited"
	actionAccount    = "AccountGPUs"

	causeMissing = "missing"
	causeDamaged = "damaged"
)

func (o *Observer) podHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(p any) {
			if pod, ok := objectOf[*v1.Pod](o.logger, p); ok {
				o.PodSeen(pod)
			}
		},
		UpdateFunc: func(was, is any) {
			old, known := objectOf[*v1.Pod](o.logger, was)
			if pod, ok := objectOf[*v1.Pod](o.logger, is); ok && known {
				o.PodUpdated(old, pod)
			}
		},
		DeleteFunc: func(p any) {
			if pod, ok := objectOf[*v1.Pod](o.logger, p); ok {
				o.podEnded(pod)
			}
		},
	}
}

// PodChanged brings the ledger in line with the informer's store where a pod is said to be gone: a pod that is not in the
// store any more, whose name belongs to another pod, or that has ended, holds nothing. One that is there keeps what it
// holds: the scheduler also speaks of a deleted pod where only a reservation was given back.
func (o *Observer) PodChanged(pod *v1.Pod) {
	o.settlePod(pod.Namespace, pod.Name, ledger.PodUID(pod.UID))
}

func (o *Observer) settlePod(namespace, name string, uid ledger.PodUID) {
	ahead := o.Ahead(uid) // before the store is asked, which may catch up meanwhile
	current, err := o.pods.Pods(namespace).Get(name)
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		o.logger.Error(err, "Pod cannot be read from the informer's store", "pod", klog.KRef(namespace, name))
	case ahead:
		// The store is behind what the ledger was told.
	case err != nil:
		o.letGo(uid)
	case ledger.PodUID(current.UID) != uid:
		o.replaced(uid, current)
	case Terminal(current):
		o.ledger.Release(uid)
	}
}

// PodSeen brings the ledger in line with a pod as the API shows it. The pod may be newer than the informer's store.
func (o *Observer) PodSeen(pod *v1.Pod) {
	switch {
	case Terminal(pod):
		o.podEnded(pod)
	case pod.Spec.NodeName != "":
		if h, ok := o.holdingOf(pod); ok {
			o.noteAhead(pod) // before the ledger has it: from then on its end may be looked for
			o.adopted(pod, o.ledger.Adopt(h))
			o.noteRunning(pod)
		}
	}
}

// podEnded releases what the pod held. The ledger remembers UIDs that ended, a bounded number of them: those of pods that
// never asked for a GPU are kept out.
func (o *Observer) podEnded(pod *v1.Pod) {
	uid := ledger.PodUID(pod.UID)
	o.forgetFault(uid)
	if !Terminal(pod) {
		o.forgetEnd(uid) // the store does not have it any more
	}
	if _, _, held := o.ledger.Holding(uid); !held {
		if !request.TakesCards(pod) {
			return
		}
	}
	if Terminal(pod) {
		o.noteEnd(pod)
	}
	if Terminal(pod) || pod.DeletionTimestamp != nil {
		o.noteRunning(pod) // what is not running needs no cooling
	}
	o.letGo(uid)
	o.noteQuarantine(pod.Spec.NodeName)
}

// PodUpdated brings the ledger in line with a change of a pod.
func (o *Observer) PodUpdated(old, pod *v1.Pod) {
	uid := ledger.PodUID(pod.UID)
	if old.UID != pod.UID {
		o.replaced(ledger.PodUID(old.UID), pod)
		return
	}
	if !Terminal(pod) && pod.Spec.NodeName != "" && old.Spec.NodeName == pod.Spec.NodeName {
		held, stage, known := o.ledger.Holding(uid)
		if known && stage == ledger.StageBound && string(held.Node) == pod.Spec.NodeName {
			o.noteRunning(pod)
			o.recordChanged(old, pod, held)
			return
		}
	}
	o.PodSeen(pod)
}

// replaced handles a pod whose name belongs to another pod now: in one step, so that nobody sees its cards free between.
func (o *Observer) replaced(old ledger.PodUID, pod *v1.Pod) {
	o.forgetFault(old)
	o.forgetAhead(old)
	o.forgetEnd(old)
	if o.ran(old) {
		o.letGo(old) // one step as well: the cards go to the holding that cools
		o.PodSeen(pod)
		return
	}
	if !Terminal(pod) && pod.Spec.NodeName != "" {
		if h, ok := o.holdingOf(pod); ok {
			o.noteAhead(pod)
			o.adopted(pod, o.ledger.Replace(old, h))
			return
		}
	}
	o.ledger.Release(old)
	o.PodSeen(pod)
}

// recordChanged looks at the record of a pod that the ledger has as bound. A record that appears for a pod whose cards
// are not known is taken; any other change is reported and changes nothing.
func (o *Observer) recordChanged(old, pod *v1.Pod, held ledger.Holding) {
	if old.Annotations[v1alpha1.AllocationAnnotation] == pod.Annotations[v1alpha1.AllocationAnnotation] {
		return
	}
	if len(held.Cards) == 0 {
		o.PodSeen(pod)
		return
	}
	o.logger.Info("Allocation record of a bound pod was changed by somebody else; the cards it started with stay charged", "pod", klog.KObj(pod), "node", pod.Spec.NodeName)
	o.report.Report(pod, reasonEdited, actionAccount, "annotation "+v1alpha1.AllocationAnnotation+" was changed after the pod was bound; the cards it started with stay charged")
}

// holdingOf returns what a bound pod holds, and reports what is wrong with its record; false for a pod without GPUs.
func (o *Observer) holdingOf(pod *v1.Pod) (ledger.Holding, bool) {
	h, held, fault := o.charge(pod)
	switch {
	case fault == nil:
	case errors.Is(fault, record.ErrNoRecord):
		if held {
			metrics.UnreadableRecords.WithLabelValues(causeMissing).Inc()
		}
	default:
		metrics.UnreadableRecords.WithLabelValues(causeDamaged).Inc()
		o.logger.Info("Allocation record does not say all that the pod holds", "pod", klog.KObj(pod), "node", pod.Spec.NodeName, "err", fault, "cards", len(h.Cards), "unknownCards", h.UnknownCards)
		o.noteFault(pod, "annotation "+v1alpha1.AllocationAnnotation+": "+fault.Error())
	}
	return h, held
}

// charge is holdingOf without a word to anybody.
func (o *Observer) charge(pod *v1.Pod) (ledger.Holding, bool, error) {
	h, held, fault := record.Charge(pod, o.options.Recent)
	if claimed := o.claimed(pod); claimed > 0 {
		if !held {
			h, held = record.ForeignHolding(pod, 0, nil), true
		}
		h.UnknownCards += claimed
	}
	return h, held, fault
}

func (o *Observer) adopted(pod *v1.Pod, err error) {
	switch {
	case err == nil:
		o.noteQuarantine(pod.Spec.NodeName)
	case errors.Is(err, ledger.ErrReleased):
		o.forgetAhead(ledger.PodUID(pod.UID))
		o.logger.V(4).Info("Late event of a pod that has ended", "pod", klog.KObj(pod))
	default:
		o.logger.Error(err, "Bound pod cannot be charged", "pod", klog.KObj(pod), "node", pod.Spec.NodeName)
		o.report.Report(pod, reasonUnreadable, actionAccount, err.Error())
	}
}

// Terminal reports whether a pod has succeeded or failed: it holds nothing any more.
func Terminal(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}
