package record

import (
	"sync"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
)

// recents is how many records a Recent keeps: as a rule more than there are between a Binding and the watch's word of it. One
// that was dropped is read.
const recents = 512

// Recent keeps the last records that this process wrote, each from when it was first written, under their text, so that one that comes back with the bound pod need not
// be read again: reading it costs more than all else that is done with it. The text decides: one that differs by a byte is read.
// A nil Recent keeps nothing. Safe for concurrent use.
type Recent struct {
	mu      sync.Mutex
	records map[string]*v1alpha1.Record
	// texts has the keys of records, the one that is dropped next at next.
	texts [recents]string
	next  int
}

// NewRecent returns an empty Recent.
func NewRecent() *Recent { return &Recent{records: map[string]*v1alpha1.Record{}} }

// wrote keeps a record that Format made the text of. It must not change any more.
func (r *Recent) wrote(text string, record *v1alpha1.Record) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.records[text]; known {
		return
	}
	delete(r.records, r.texts[r.next])
	r.records[text], r.texts[r.next] = record, text
	r.next = (r.next + 1) % recents
}

// parse is ParseRecord. What it returns must not be changed.
func (r *Recent) parse(text string) (*v1alpha1.Record, error) {
	if r != nil {
		r.mu.Lock()
		record := r.records[text]
		r.mu.Unlock()
		if record != nil {
			return record, nil
		}
	}
	return v1alpha1.ParseRecord(text)
}
