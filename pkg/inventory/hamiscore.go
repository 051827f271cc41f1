package inventory

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// pointsPerNVLink is what one NVLink adds to a pair's score (NVIDIA/go-gpuallocator
// gpuallocator/besteffort_policy.go).
const pointsPerNVLink = 100

// hamiScore is one card's row of hami.io/node-nvidia-score.
type hamiScore struct {
	UUID  string         `json:"uuid"`
	Score map[string]int `json:"score"`
}

// hamiLinks finds the links of HAMi's cards: by the pair scores, else by the catalogue, else unknown.
//
// HAMi counts NVLinks that go to an NVSwitch only since its pull request 2103 (July 2026); before, a machine with
// NVSwitches shows the PCIe path of every pair and no NVLink at all. Scores without any NVLink, of a machine of which
// the catalogue knows that every pair has some, therefore give way to the catalogue.
func hamiLinks(value string, cards []topology.Card, r *report) [][]topology.Link {
	known := catalogueLinks(cards, true)
	if strings.TrimSpace(value) == "" {
		return known
	}
	var rows []hamiScore
	if err := json.Unmarshal([]byte(value), &rows); err != nil {
		r.fail(annotationHAMiScore, value, jsonError(err))
		return known
	}
	links, nvlinks := scoreMatrix(rows, cards, r)
	if nvlinks == 0 && len(cards) > 1 && countNVLinks(known) == len(cards)*(len(cards)-1) {
		return known
	}
	return links
}

// countNVLinks counts the cells of a matrix that are NVLinks.
func countNVLinks(links [][]topology.Link) int {
	n := 0
	for _, row := range links {
		for _, l := range row {
			if l.Type == topology.LinkNVLink {
				n++
			}
		}
	}
	return n
}

// scoreMatrix turns scores into links; nvlinks counts those that are NVLinks. A pair that stands in one direction
// only stays unknown, as topology.New reads the weaker direction.
func scoreMatrix(rows []hamiScore, cards []topology.Card, r *report) (links [][]topology.Link, nvlinks int) {
	index := make(map[string]int, len(cards))
	for i := range cards {
		if cards[i].UUID != "" {
			index[cards[i].UUID] = i
		}
	}
	links = make([][]topology.Link, len(cards))
	for i := range links {
		links[i] = make([]topology.Link, len(cards))
	}
	for _, row := range rows {
		from, ok := index[row.UUID]
		if !ok {
			r.add(annotationHAMiScore, row.UUID, "is no card of this node: ignored")
			continue
		}
		for _, peer := range sortedKeys(row.Score) {
			to, ok := index[peer]
			switch {
			case !ok:
				r.add(annotationHAMiScore, peer, "is no card of this node: ignored")
				continue
			case to == from:
				continue
			}
			l, err := scoreLink(row.Score[peer])
			if err != nil {
				field := fmt.Sprintf("%s[%.64s][%.64s]", annotationHAMiScore, row.UUID, peer)
				r.add(field, strconv.Itoa(row.Score[peer]), err.Error())
				continue
			}
			links[from][to] = l
		}
	}
	return links, countNVLinks(links)
}

// scoreLink turns a pair's score into a link: 100 for each NVLink, plus 10 to 60 for the PCIe path, which counts
// where there is no NVLink. 0 is a pair of which HAMi knows nothing.
func scoreLink(score int) (topology.Link, error) {
	nvlinks, path := score/pointsPerNVLink, score%pointsPerNVLink
	t, ok := pathPoints[path]
	switch {
	case score < 0 || !ok || nvlinks > 255:
		return topology.Link{}, fmt.Errorf("is no sum of %d for each NVLink and 10 to 60 for the PCIe path: link unknown", pointsPerNVLink)
	case nvlinks > 0:
		return topology.Link{Type: topology.LinkNVLink, NVLinks: uint8(nvlinks)}, nil
	}
	return topology.Link{Type: t}, nil
}

// pathPoints are go-gpuallocator's points for the nearest common ancestor of two cards. Two chips of one board (60)
// are joined by a bridge on the board.
var pathPoints = map[int]topology.LinkType{
	0:  topology.LinkUnknown,
	10: topology.LinkSYS,
	20: topology.LinkNODE,
	30: topology.LinkPHB,
	40: topology.LinkPXB,
	50: topology.LinkPIX,
	60: topology.LinkPIX,
}

func sortedKeys[K ~string, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
