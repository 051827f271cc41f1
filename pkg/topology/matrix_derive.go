package topology

import (
	"strconv"
	"strings"
)

const (
	// maxNUMA is the largest NUMA id; Linux has at most 1024 nodes.
	maxNUMA = 1023
	// maxCPU is the largest CPU number in an affinity.
	maxCPU = 1<<16 - 1
)

// either combines the two readings of one connection: the weaker one, or the only one, or unknown.
func either(a, b *Link) Link {
	switch {
	case a != nil && b != nil:
		return Weaker(*a, *b)
	case a != nil:
		return *a
	case b != nil:
		return *b
	}
	return Link{}
}

func (t *table) gpuLinks() [][]Link {
	out := make([][]Link, t.header.gpus)
	for i := range out {
		out[i] = make([]Link, t.header.gpus)
		for j := range out[i] {
			if i == j {
				out[i][j] = Link{Type: LinkSelf}
				continue
			}
			out[i][j] = either(t.gpu[i][j], t.gpu[j][i])
		}
	}
	return out
}

func (t *table) nicLinks() []NIC {
	if t.header.nics == 0 {
		return nil
	}
	out := make([]NIC, t.header.nics)
	for _, c := range t.header.columns {
		if c.kind != columnNIC {
			continue
		}
		k := c.device
		out[k] = NIC{Name: c.name, Links: make([]LinkType, t.header.gpus)}
		for i := range out[k].Links {
			out[k].Links[i] = either(t.gpuNIC[i][k], t.nicGPU[k][i]).Type
		}
	}
	return out
}

// affinity fills in the affinities of the GPUs, in the way that ParseMatrix describes.
func (t *table) affinity(gpus []MatrixGPU) error {
	byText, err := t.numaIDs()
	if err != nil {
		return err
	}
	byCPU := make(map[string]int, len(gpus))
	for i := range gpus {
		gpus[i].CPUAffinity, gpus[i].NUMA = t.cpu[i], NUMAUnknown
		if t.cpu[i] != "" {
			if _, _, ok := readList(t.cpu[i], maxCPU); !ok {
				return &ParseError{Line: t.lines[i], Column: "CPU Affinity", Value: t.cpu[i], Reason: "neither a list of CPU numbers, nor N/A"}
			}
		}
		switch {
		case t.numa[i] != "":
			gpus[i].NUMA = byText[t.numa[i]]
		case len(byText) == 0 && t.cpu[i] != "":
			id, known := byCPU[t.cpu[i]]
			if !known {
				id = len(byCPU)
				byCPU[t.cpu[i]] = id
			}
			gpus[i].NUMA = id
		}
	}
	return nil
}

// numaIDs returns the NUMA id of every text of the column "NUMA Affinity"; NUMAUnknown for a list whose first
// number is the id of another text too.
func (t *table) numaIDs() (map[string]int, error) {
	ids := make(map[string]int, len(t.numa))
	lists := make(map[string]bool, len(t.numa))
	texts := make(map[int]int, len(t.numa)) // number of texts with this id
	for i, text := range t.numa {
		if _, known := ids[text]; known || text == "" {
			continue
		}
		first, list, ok := readList(text, maxNUMA)
		if !ok {
			return nil, &ParseError{Line: t.lines[i], Column: "NUMA Affinity", Value: text, Reason: "neither a NUMA id of 0 to 1023, nor a list of them, nor N/A"}
		}
		ids[text], lists[text] = first, list
		texts[first]++
	}
	for text, id := range ids {
		if lists[text] && texts[id] > 1 {
			ids[text] = NUMAUnknown
		}
	}
	return ids, nil
}

// readList reads "0", or a list such as "0,3-9,11-17", of numbers up to limit, and returns its first number.
func readList(text string, limit uint64) (first int, list, ok bool) {
	for i, part := range strings.Split(text, ",") {
		from, to, span := strings.Cut(part, "-")
		if !span {
			to = from
		}
		low, lowErr := strconv.ParseUint(from, 10, 32)
		high, highErr := strconv.ParseUint(to, 10, 32)
		if lowErr != nil || highErr != nil || low > high || high > limit {
			return 0, false, false
		}
		if i == 0 {
			first = int(low)
		}
		list = list || span || i > 0
	}
	return first, list, true
}

// groupPCIe names the PCIe switch and the host bridge of every GPU of which the matrix tells it.
func (m *Matrix) groupPCIe() {
	for i, group := range m.groups(LinkPIX) {
		if group >= 0 {
			m.GPUs[i].PCIeSwitch = "switch" + strconv.Itoa(group)
		}
	}
	for i, group := range m.groups(LinkPHB) {
		if group >= 0 {
			m.GPUs[i].PCIeRoot = "root" + strconv.Itoa(group)
		}
	}
}

// groups joins GPUs that reach each other, or one adapter, over PCIe by a link of at least type t. The result is the
// number of each GPU's group in the order of the lowest member, -1 for a GPU without such a link.
func (m *Matrix) groups(t LinkType) []int {
	n := len(m.GPUs)
	near := func(l LinkType) bool { return l >= t && l <= LinkPIX }
	parent := make([]int, n+len(m.NICs)) // adapters come after the GPUs
	for i := range parent {
		parent[i] = i
	}
	root := func(i int) int {
		for parent[i] != i {
			i = parent[i]
		}
		return i
	}
	linked := make([]bool, n)
	for i := range n {
		for j := range n {
			if i != j && near(m.Links[i][j].Type) {
				linked[i] = true
				parent[root(j)] = root(i)
			}
		}
		for k, nic := range m.NICs {
			if near(nic.Links[i]) {
				linked[i] = true
				parent[root(n+k)] = root(i)
			}
		}
	}
	out, number := make([]int, n), make(map[int]int, n)
	for i := range out {
		out[i] = -1
		if !linked[i] {
			continue
		}
		group, ok := number[root(i)]
		if !ok {
			group = len(number)
			number[root(i)] = group
		}
		out[i] = group
	}
	return out
}
