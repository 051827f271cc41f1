package topology

import (
	"fmt"
	"io"
	"slices"
	"strconv"
)

// MatrixGPU is what a topo -m readout says about one GPU.
type MatrixGPU struct {
	// CPUAffinity is the text of the column "CPU Affinity", empty if not given.
	CPUAffinity string
	// NUMA is the id of the GPU's NUMA node, or NUMAUnknown; see ParseMatrix.
	NUMA int
	// PCIeSwitch and PCIeRoot group GPUs under one PCIe switch and one host bridge, empty where the readout
	// does not tell; see ParseMatrix.
	PCIeSwitch, PCIeRoot string
}

// Matrix is a readout of `nvidia-smi topo -m`.
type Matrix struct {
	// GPUs stands in index order, whatever the order of the readout.
	GPUs []MatrixGPU
	// Links is the connection of every pair of GPUs; both directions are equal.
	Links [][]Link
	// NICs stands in the order of the readout's columns.
	NICs []NIC
}

// ParseMatrix reads the output of `nvidia-smi topo -m`, as printed, redirected, or copied from a terminal.
//
// It accepts tabs or blanks between the cells, CRLF, terminal escape codes, blank lines, comment lines ("#"), text
// before the header and legends after the matrix, columns and rows in any order, missing affinity columns, blank
// affinity cells, network adapters under any name, with or without rows of their own, and the older SOC for SYS.
//
// Links: where both halves of the matrix have a cell, the weaker one counts; where one half is missing (a row cut
// off), the other one is taken; a pair in neither half, and a cell "N/A" or "?", is unknown.
//
// NUMA: from "NUMA Affinity". A single number is the id. Of a list ("0,3-9,11-17") the first number is the id, so
// that GPUs with the same list share a node; a list whose first number is also the id of another text says nothing
// sure and counts as unknown. Where no row has a NUMA affinity, GPUs with the same "CPU Affinity" share a node, and
// the nodes are numbered from 0 in the order of their lowest GPU.
//
// PCIe: GPUs joined by PIX, or by PIX to one and the same adapter, are under one switch; GPUs joined by PIX, PXB or
// PHB, or by those to one adapter, are under one host bridge. The names ("switch0", "root0") are numbers in the order
// of the lowest GPU. A GPU without any such link has no name: NVLinks hide the PCIe path between two GPUs.
//
// The error is a *ParseError, except when r itself fails. GPU indices must be 0 to n-1, n at most MaxCards.
func ParseMatrix(r io.Reader) (*Matrix, error) {
	lines, last, err := readLines(r)
	if err != nil {
		return nil, err
	}
	header, rest, err := findHeader(lines, last)
	if err != nil {
		return nil, err
	}
	t := newTable(header)
	for _, l := range rest {
		if isLegend(l.text) {
			break
		}
		if err := t.add(l); err != nil {
			return nil, err
		}
	}
	if !slices.Contains(t.gpuSeen, true) {
		return nil, &ParseError{Line: last, Reason: "no row of a GPU follows the header"}
	}
	m := &Matrix{GPUs: make([]MatrixGPU, t.header.gpus), Links: t.gpuLinks(), NICs: t.nicLinks()}
	if err := t.affinity(m.GPUs); err != nil {
		return nil, err
	}
	m.groupPCIe()
	return m, nil
}

// Spec joins the matrix with the rows of the csv query by GPU index. Without rows every card has the given product
// and memory; with rows these two fill in what a row does not say (empty and 0 for unknown). All cards are healthy
// except those whose row has a fault. The error is a *SpecError: a negative or absurd vramBytes, or rows that are
// not one a GPU.
func (m *Matrix) Spec(rows []QueryRow, product string, vramBytes int64) (Spec, error) {
	if vramBytes < 0 || vramBytes > MaxVRAMBytes {
		return Spec{}, &SpecError{Field: "vramBytes", Value: strconv.FormatInt(vramBytes, 10), Reason: fmt.Sprintf("must be 0 to %d", MaxVRAMBytes)}
	}
	spec := Spec{Cards: make([]Card, len(m.GPUs)), NICs: copyNICs(m.NICs), Source: "nvidia-smi topo -m"}
	for i, g := range m.GPUs {
		spec.Links = append(spec.Links, slices.Clone(m.Links[i]))
		spec.Cards[i] = Card{
			Product: product, VRAMBytes: vramBytes, NUMA: g.NUMA,
			PCIeSwitch: g.PCIeSwitch, PCIeRoot: g.PCIeRoot, Healthy: true,
		}
	}
	if rows == nil {
		return spec, nil
	}
	var seen GPUSet
	for _, row := range rows {
		if row.Index < 0 || row.Index >= len(spec.Cards) {
			return Spec{}, &SpecError{Field: "query.index", Value: strconv.Itoa(row.Index), Reason: fmt.Sprintf("the matrix has GPU0 to GPU%d", len(spec.Cards)-1)}
		}
		if seen.Has(row.Index) {
			return Spec{}, &SpecError{Field: "query.index", Value: strconv.Itoa(row.Index), Reason: "stands twice"}
		}
		seen = seen.With(row.Index)
		row.fill(&spec.Cards[row.Index])
	}
	if missing := FirstN(len(spec.Cards)) &^ seen; !missing.Empty() {
		return Spec{}, &SpecError{Field: "query.index", Value: strconv.Itoa(missing.Lowest()), Reason: "the matrix has this GPU, the query has no row for it"}
	}
	return spec, nil
}
