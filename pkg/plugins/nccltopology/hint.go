package nccltopology

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

const (
	reasonHint = "InvalidNCCLHint"
	actionHint = "ReadNCCLHint"
)

// maxHint bounds the annotation: it holds two numbers.
const maxHint = 256

// hint is what the annotation gputopology.io/nccl-hint says of a node. A field that it leaves out is 0: to be derived.
type hint struct {
	// pci is in [0.7, 1.0], nvlink in [0.85, 1.0].
	pci, nvlink float64
}

// parseHint reads {"pciProximity":0.92,"nvlinkBandwidth":1.0}. Both fields may be left out; any other name, a name that
// stands twice, another type and anything after the object is an error. A number outside its range is moved to the end that
// is nearer, which clamped says; it is "" for none.
func parseHint(text string) (h hint, clamped string, err error) {
	if len(text) > maxHint {
		return hint{}, "", fmt.Errorf("%d bytes are more than %d", len(text), maxHint)
	}
	d := json.NewDecoder(strings.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return hint{}, "", errors.New("it is not a JSON object")
	}
	var notes []string
	for d.More() {
		note, err := h.readField(d)
		if err != nil {
			return hint{}, "", err
		}
		if note != "" {
			notes = append(notes, note)
		}
	}
	if _, err := d.Token(); err != nil {
		return hint{}, "", errors.New("the object does not end")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return hint{}, "", errors.New("something stands after the object")
	}
	return h, strings.Join(notes, "; "), nil
}

// readField reads one name and its number.
func (h *hint) readField(d *json.Decoder) (note string, err error) {
	key, err := d.Token()
	if err != nil {
		return "", errors.New("a name is missing")
	}
	name := fmt.Sprint(key)
	field, low, high := &h.pci, minPCI, maxPCI
	switch name {
	case "pciProximity":
	case "nvlinkBandwidth":
		field, low, high = &h.nvlink, minNVLink, maxNVLink
	default:
		return "", fmt.Errorf("field %.64q is unknown", name)
	}
	if *field != 0 {
		return "", fmt.Errorf("field %s stands twice", name)
	}
	value, err := d.Token()
	if err != nil {
		return "", fmt.Errorf("field %s: the value cannot be read", name)
	}
	number, ok := value.(float64)
	if !ok {
		return "", fmt.Errorf("field %s: %.64q is not a number", name, fmt.Sprint(value))
	}
	*field = min(max(number, low), high)
	if *field != number {
		note = fmt.Sprintf("field %s: %s is outside %g to %g and counts as %g", name, strconv.FormatFloat(number, 'g', 6, 64), low, high, *field)
	}
	return note, nil
}

// hintCache remembers what the annotations of nodes said. The zero value is ready; it is safe for concurrent use.
type hintCache struct {
	nodes sync.Map // name -> readHint
	size  atomic.Int64
}

type readHint struct {
	text string
	hint hint
}

// hintOf returns the node's hint, the zero hint where it has none that can be read. What is wrong with one is reported when
// it is read first.
func (p *Plugin) hintOf(node *v1.Node) hint {
	text, ok := node.Annotations[v1alpha1.NCCLHintAnnotation]
	if !ok {
		return hint{}
	}
	if known, ok := p.hints.nodes.Load(node.Name); ok {
		if known, ok := known.(readHint); ok && known.text == text {
			return known.hint
		}
	}
	read, note, err := parseHint(text)
	if err != nil {
		note = err.Error() + "; the hint is ignored"
	}
	if _, replaced := p.hints.nodes.Swap(node.Name, readHint{text, read}); !replaced {
		p.hints.size.Add(1)
	}
	if note != "" {
		p.engine.Report(node, reasonHint, actionHint, fmt.Sprintf("annotation %s: %.64q: %s", v1alpha1.NCCLHintAnnotation, text, note))
	}
	return read
}

// tidy forgets nodes that the fabric does not have, once there may be as many of them as of the others.
func (c *hintCache) tidy(f *topology.Fabric) {
	const slack = 64
	if c.size.Load() <= int64(2*f.Len()+slack) {
		return
	}
	c.nodes.Range(func(name, _ any) bool {
		if s, ok := name.(string); ok {
			if _, known := f.Position(s); known {
				return true
			}
		}
		c.nodes.Delete(name)
		c.size.Add(-1)
		return true
	})
}
