package v1alpha1

// Version is the version of both JSON values.
const Version = 1

// Record is the value of AllocationAnnotation: what one bound pod holds. See the package documentation for its JSON.
type Record struct {
	// V is Version.
	V int `json:"v"`
	// Node is the node that the pod is bound to.
	Node string `json:"node"`
	// Cards is what the pod is charged for: at least one entry, each card once, or each of its MIG instances once.
	Cards []CardRecord `json:"cards"`
	// Containers says which container uses what, by container name; empty where a single container claims.
	// A container's shares lie on cards of Cards. Init and app containers may use the same share one after the other.
	Containers []ContainerRecord `json:"containers,omitempty"`
	// Gang is the pod's group as "namespace/name"; empty without one.
	Gang string `json:"gang,omitempty"`
	// Rank is the pod's place in its gang, >= 0; nil without one.
	Rank *int32 `json:"rank,omitempty"`
	// Plan identifies the gang's placement plan; empty without one.
	Plan string `json:"plan,omitempty"`
}

// CardRecord is a share of one card.
type CardRecord struct {
	// Index is the card's index on its node, 0 to 63.
	Index int `json:"index"`
	// UUID is the card's UUID, empty if unknown.
	UUID string `json:"uuid,omitempty"`
	// SliceMask is all ones for a whole card; for a share the parts of 1/64 of the card that it alone fills, which
	// may be none; for a MIG instance its memory slices as bits 0 to 7.
	SliceMask SliceMask `json:"sliceMask"`
	// VRAMBytes is the memory; 0 only for a whole card or a MIG instance of unknown size.
	VRAMBytes int64 `json:"vramBytes"`
	// ComputeMilli is the promised compute in thousandths of the card, 0 to 1000.
	ComputeMilli int32 `json:"computeMilli"`
	// MIG is the instance's profile, for example "1g.10gb"; empty for anything else.
	MIG string `json:"mig,omitempty"`
}

// ContainerRecord is what one container uses.
type ContainerRecord struct {
	// Name is the container's name, init containers included; each name once.
	Name string `json:"name"`
	// Cards are its shares, at least one.
	Cards []CardRecord `json:"cards"`
}

// ParseRecord reads the value of AllocationAnnotation. A value that it accepts is complete and consistent in itself;
// whether it fits the pod and the node is for the caller to check. Errors are *VersionError or *FieldError.
func ParseRecord(value string) (*Record, error) {
	var w recordWire
	if err := decode(AllocationAnnotation, value, &w); err != nil {
		return nil, err
	}
	r, err := w.record()
	if err != nil {
		return nil, err
	}
	if err := r.validate(); err != nil {
		return nil, err
	}
	return r, nil
}

// Format returns the value of AllocationAnnotation, which ParseRecord reads back as an equal Record. It refuses with a
// *FieldError what ParseRecord would refuse.
func (r *Record) Format() (string, error) {
	if err := r.validate(); err != nil {
		return "", err
	}
	return encode(AllocationAnnotation, r)
}

// recordWire is Record with pointers for the fields that must be present.
type recordWire struct {
	V          int             `json:"v"`
	Node       *string         `json:"node"`
	Cards      []cardWire      `json:"cards"`
	Containers []containerWire `json:"containers"`
	Gang       string          `json:"gang"`
	Rank       *int32          `json:"rank"`
	Plan       string          `json:"plan"`
}

type containerWire struct {
	Name  *string    `json:"name"`
	Cards []cardWire `json:"cards"`
}

type cardWire struct {
	Index        *int    `json:"index"`
	UUID         string  `json:"uuid"`
	SliceMask    *string `json:"sliceMask"`
	VRAMBytes    *int64  `json:"vramBytes"`
	ComputeMilli *int32  `json:"computeMilli"`
	MIG          string  `json:"mig"`
}

func (w *recordWire) version() int { return w.V }

func (w *recordWire) record() (*Record, error) {
	if w.Node == nil {
		return nil, missing("node")
	}
	cards, err := cardsOf(w.Cards, "cards")
	if err != nil {
		return nil, err
	}
	r := &Record{V: Version, Node: *w.Node, Cards: cards, Gang: w.Gang, Rank: w.Rank, Plan: w.Plan}
	for i := range w.Containers {
		at := indexed("containers", i)
		if w.Containers[i].Name == nil {
			return nil, missing(at + ".name")
		}
		cards, err := cardsOf(w.Containers[i].Cards, at+".cards")
		if err != nil {
			return nil, err
		}
		r.Containers = append(r.Containers, ContainerRecord{Name: *w.Containers[i].Name, Cards: cards})
	}
	return r, nil
}

func cardsOf(ws []cardWire, at string) ([]CardRecord, error) {
	if len(ws) > maxShares {
		return nil, tooMany(at, len(ws))
	}
	cards := make([]CardRecord, 0, len(ws))
	for i := range ws {
		w, here := &ws[i], indexed(at, i)
		switch {
		case w.Index == nil:
			return nil, missing(here + ".index")
		case w.SliceMask == nil:
			return nil, missing(here + ".sliceMask")
		case w.VRAMBytes == nil:
			return nil, missing(here + ".vramBytes")
		case w.ComputeMilli == nil:
			return nil, missing(here + ".computeMilli")
		}
		mask, err := ParseSliceMask(*w.SliceMask)
		if err != nil {
			return nil, refuse(here+".sliceMask", *w.SliceMask, err.Error())
		}
		cards = append(cards, CardRecord{
			Index: *w.Index, UUID: w.UUID, SliceMask: mask,
			VRAMBytes: *w.VRAMBytes, ComputeMilli: *w.ComputeMilli, MIG: w.MIG,
		})
	}
	return cards, nil
}
