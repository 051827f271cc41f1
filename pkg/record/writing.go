package record

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
)

// mib is one MiB in bytes.
const mib = int64(1) << 20

// writing is one pod on its way into a dialect.
type writing struct {
	dialect *dialect
	pod     *v1.Pod
	node    string
	choice  *allocate.Choice
	options *Options
	out     map[string]string
}

func (w *writing) fail(format string, args ...any) error {
	return &DialectError{Dialect: w.dialect.name, Reason: fmt.Sprintf(format, args...)}
}

// check refuses what the dialect has no room for.
func (w *writing) check() error {
	for _, c := range w.choice.Containers {
		_, inits := w.position(c.Name)
		for _, s := range c.Cards {
			if err := w.dialect.allows(c.Name, inits, s.MIGProfile != ""); err != nil {
				return err
			}
		}
	}
	return nil
}

// position finds a container in the pod; -1 where it is not in it.
func (w *writing) position(name string) (at int, inits bool) {
	for i := range w.pod.Spec.InitContainers {
		if w.pod.Spec.InitContainers[i].Name == name {
			return i, true
		}
	}
	for i := range w.pod.Spec.Containers {
		if w.pod.Spec.Containers[i].Name == name {
			return i, false
		}
	}
	return -1, false
}

// slots returns the shares of every container of the pod in the order of its spec, init containers first if asked for;
// nil for a container that has none.
func (w *writing) slots(inits bool) ([][]allocate.CardShare, error) {
	offset := 0
	if inits {
		offset = len(w.pod.Spec.InitContainers)
	}
	slots := make([][]allocate.CardShare, offset+len(w.pod.Spec.Containers))
	for _, c := range w.choice.Containers {
		at, isInit := w.position(c.Name)
		if at < 0 {
			return nil, w.fail("the pod has no container %s", quote(c.Name))
		}
		if !isInit {
			at += offset
		}
		slots[at] = c.Cards
	}
	return slots, nil
}

// device returns a share as HAMi and Volcano write it, "UUID,NVIDIA,MiB,percent:".
func (w *writing) device(s *allocate.CardShare) (string, error) {
	if err := w.expressible(s.Index, s.UUID, s.VRAMBytes); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s,NVIDIA,%d,%d:", s.UUID, max(s.VRAMBytes/mib, 1), percent(s.ComputeMilli)), nil
}

// expressible refuses a card that device cannot name.
func (w *writing) expressible(index int, uuid string, vramBytes int64) error {
	switch {
	case uuid == "":
		return w.fail("card %d of node %s has no known UUID", index, w.node)
	case strings.ContainsAny(uuid, ",:;[]"):
		return w.fail("the UUID %s of card %d of node %s holds a separator", quote(uuid), index, w.node)
	case vramBytes == 0:
		return w.fail("the memory of card %d of node %s is not known", index, w.node)
	}
	return nil
}

// devices returns the shares of one container.
func (w *writing) devices(held []allocate.CardShare) (string, error) {
	var b strings.Builder
	for i := range held {
		d, err := w.device(&held[i])
		if err != nil {
			return "", err
		}
		b.WriteString(d)
	}
	return b.String(), nil
}

// percent turns thousandths of a card's compute into percent, rounded down but not to 0.
func percent(milli int32) int32 {
	if milli > 0 {
		return max(milli/10, 1)
	}
	return 0
}

func unix(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }

// quote shortens a name for a message.
func quote(s string) string { return fmt.Sprintf("%.64q", s) }
