package placement

import (
	"strconv"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
)

// tooFew says that there is too little in total.
func (a *Amounts) tooFew() string {
	if a.Kind == allocate.KindShare {
		return "too little free GPU memory"
	}
	return "too few free " + a.unit()
}

// free names what is free, with its verb.
func (a *Amounts) free() string {
	if a.Kind == allocate.KindShare {
		return "free GPU memory is"
	}
	return "free " + a.unit() + " are"
}

// freeUnit names what is free, in the plural.
func (a *Amounts) freeUnit() string {
	if a.Kind == allocate.KindShare {
		return "of free GPU memory"
	}
	return "free " + a.unit()
}

// unit names what is counted, in the plural.
func (a *Amounts) unit() string {
	if a.Kind == allocate.KindMIG {
		return "MIG instances " + cut(a.Profile)
	}
	return "GPUs"
}

// haveAndNeed says what is free and what is needed.
func (a *Amounts) haveAndNeed(and string) string {
	if a.Kind == allocate.KindShare {
		return a.amount(a.Free) + " of " + a.amount(a.Total) + " is free" + and + a.amount(a.Needed) + " is needed"
	}
	return a.amount(a.Free) + " of " + a.amount(a.Total) + " " + isAre64(a.Free) + " free" + and + a.amount(a.Needed) + " " + isAre64(a.Needed) + " needed"
}

// each says what one member needs.
func (a *Amounts) each() string {
	s := ""
	switch a.Kind {
	case allocate.KindWhole:
		s = plural64(a.Each, "free GPU")
	case allocate.KindShare:
		s = a.amount(a.Each) + " of " + plural(a.Pieces, "GPU")
	case allocate.KindMIG:
		s = plural64(a.Each, "free MIG instance") + " " + cut(a.Profile)
	}
	if a.NUMA == allocate.NUMARequire {
		s += " on one NUMA node"
	}
	if a.NIC == allocate.NICRequire {
		s += " with a NIC at PIX or PXB"
	}
	return s
}

// amount writes a number with its unit if that is bytes.
func (a *Amounts) amount(n int64) string {
	const mib, gib = 1 << 20, 1 << 30
	switch {
	case a.Kind != allocate.KindShare:
		return strconv.FormatInt(n, 10)
	case n >= gib/10 || n == 0:
		return strconv.FormatFloat(float64(n)/gib, 'f', 1, 64) + " GiB"
	case n >= mib:
		return strconv.FormatFloat(float64(n)/mib, 'f', 1, 64) + " MiB"
	}
	return strconv.FormatInt(n, 10) + " B"
}

func plural(n int, noun string) string { return plural64(int64(n), noun) }

func plural64(n int64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.FormatInt(n, 10) + " " + noun
}

func isAre(n int) string { return form(n, "is", "are") }

func isAre64(n int64) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

func hasHave(n int) string { return form(n, "has", "have") }

// form returns the form for one or for several.
func form(n int, one, several string) string {
	if n == 1 {
		return one
	}
	return several
}

// cut keeps the first 64 bytes of a name that others chose.
func cut(s string) string {
	if len(s) > 64 {
		return s[:64]
	}
	return s
}
