package v1alpha1

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// bytesSource deals out the bytes of a fuzz input; past its end it deals zeros.
type bytesSource struct{ data []byte }

func (s *bytesSource) byte() byte {
	if len(s.data) == 0 {
		return 0
	}
	b := s.data[0]
	s.data = s.data[1:]
	return b
}

func (s *bytesSource) uint64() uint64 {
	var b [8]byte
	s.data = s.data[copy(b[:], s.data):]
	return binary.LittleEndian.Uint64(b[:])
}

func (s *bytesSource) text() string {
	n := min(int(s.byte())%16, len(s.data))
	out := string(s.data[:n])
	s.data = s.data[n:]
	return out
}

func (s *bytesSource) cards() []CardRecord {
	cards := make([]CardRecord, s.byte()%5)
	for i := range cards {
		cards[i] = CardRecord{
			Index: int(int8(s.byte())), SliceMask: SliceMask(s.uint64()), VRAMBytes: int64(s.uint64()) >> (s.byte() % 64),
			ComputeMilli: int32(s.uint64()) >> (s.byte() % 32), UUID: s.text(), MIG: s.text(),
		}
		if s.byte()%2 == 0 {
			cards[i].SliceMask = wholeMask
		}
	}
	return cards
}

func (s *bytesSource) record() Record {
	r := Record{V: Version, Node: s.text(), Gang: s.text(), Plan: s.text(), Cards: s.cards()}
	if s.byte()%2 == 0 {
		r.Rank = rank(int32(s.uint64()))
	}
	for range s.byte() % 3 {
		r.Containers = append(r.Containers, ContainerRecord{Name: s.text(), Cards: s.cards()})
	}
	return r
}

// FuzzRecordRoundTrip holds that a Record either is refused by Format or comes back equal.
func FuzzRecordRoundTrip(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x02n1\x00\x00\x01\x03"))
	f.Add([]byte("\x05<&>\u2028\x01g\x01p\x02\x00\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := (&bytesSource{data: data}).record()
		value, err := r.Format()
		if err != nil {
			return
		}
		back, err := ParseRecord(value)
		if err != nil {
			t.Fatalf("ParseRecord(%s): %v", value, err)
		}
		if diff := cmp.Diff(&r, back); diff != "" {
			t.Fatalf("ParseRecord(Format) (-want +got):\n%s", diff)
		}
	})
}

// FuzzParseRecord holds that what ParseRecord accepts is a fixed point, and that no error is longer than an event.
func FuzzParseRecord(f *testing.F) {
	f.Add(record(card("", "")))
	f.Add(`{"v":1,"node":"n1","cards":[{"index":1,"sliceMask":"0x0","vramBytes":1,"computeMilli":0}],"containers":null,"rank":0}`)
	f.Add(`{"v":2}`)
	f.Add(`{"v":1,"node":"n","cards":[{"index":1e1}]}`)
	f.Fuzz(func(t *testing.T, value string) {
		r, err := ParseRecord(value)
		if err != nil {
			if len(err.Error()) > 1024 {
				t.Fatalf("the message has %d bytes", len(err.Error()))
			}
			return
		}
		again, err := r.Format()
		if err != nil {
			t.Fatalf("Format of what was parsed: %v", err)
		}
		back, err := ParseRecord(again)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, back); diff != "" {
			t.Fatalf("(-first +second):\n%s", diff)
		}
	})
}

// FuzzParseTopology holds that topology.New accepts what ParseTopology accepts and that formatting it changes nothing.
func FuzzParseTopology(f *testing.F) {
	f.Add(`{"v":1,"cards":[]}`)
	f.Add(eightCards(`"vramBytes":85899345920`))
	f.Add(`{"v":1,"cards":[{"numa":0,"mig":{"enabled":true,"instances":[{"profile":"1g.10gb.me","start":0,"size":1}]}},{"healthy":false}],` +
		`"links":["X NV4","? X"],"nics":[{"name":"mlx5_0","links":"PIX SYS"}],"nvswitch":true,"observedAt":"2026-01-02T15:04:05Z"}`)
	f.Fuzz(func(t *testing.T, value string) {
		spec, err := ParseTopology(value)
		if err != nil {
			if len(err.Error()) > 1024 {
				t.Fatalf("the message has %d bytes", len(err.Error()))
			}
			return
		}
		if _, err := topology.New(spec, topology.DefaultRates()); err != nil {
			t.Fatalf("topology.New refuses what was parsed: %v", err)
		}
		again, err := FormatTopology(spec)
		if err != nil {
			t.Fatalf("FormatTopology of what was parsed: %v", err)
		}
		back, err := ParseTopology(again)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(spec, back); diff != "" {
			t.Fatalf("ParseTopology(FormatTopology) (-want +got):\n%s", diff)
		}
	})
}
