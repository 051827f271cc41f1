package checker

import (
	"fmt"
	"slices"
	"strings"
)

// Violation is a law that does not hold.
type Violation struct {
	// Law is one of the names in the package's documentation.
	Law string
	// Text says in one sentence what is wrong.
	Text string
	// About are the pods (namespace/name), nodes and cards (UUID) involved.
	About []string
}

// String is law and text.
func (v Violation) String() string { return v.Law + ": " + v.Text }

func violated(law string, about []string, format string, args ...any) Violation {
	return Violation{Law: law, Text: fmt.Sprintf(format, args...), About: slices.Compact(slices.Sorted(slices.Values(about)))}
}

func uuids(cards []Card) []string {
	out := make([]string, len(cards))
	for i, c := range cards {
		out[i] = c.UUID
	}
	return out
}

func cardTexts(cards []Card) string {
	out := make([]string, len(cards))
	for i, c := range cards {
		out[i] = fmt.Sprintf("%d=%s/%#x/%d/%d", c.Index, c.UUID, c.Mask, c.VRAMBytes, c.ComputeMilli)
	}
	return "[" + strings.Join(out, " ") + "]"
}
