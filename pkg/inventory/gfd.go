package inventory

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// The labels of NVIDIA GPU Feature Discovery (NVIDIA/k8s-device-plugin docs/gpu-feature-discovery/README.md).
const (
	labelProduct  = "nvidia.com/gpu.product"
	labelCount    = "nvidia.com/gpu.count"
	labelMemory   = "nvidia.com/gpu.memory"
	labelReplicas = "nvidia.com/gpu.replicas"
	// migPrefix starts the labels and the resources of the MIG profiles of strategy "mixed".
	migPrefix = "nvidia.com/mig-"
)

// faultLayout closes cards in MIG mode of which it is not known how they are cut.
const faultLayout = "MIG instances do not fit the cards"

// readGFD reads the labels of GPU Feature Discovery. They give the product, the count and the size of the cards; the
// links are those of the catalogue, unknown for a machine that it does not have.
func readGFD(in *input, r *report) (topology.Spec, bool) {
	product, shared := strings.CutSuffix(in.label(labelProduct), "-SHARED")
	_, counted := in.node.Labels[labelCount]
	if product == "" && !counted {
		return topology.Spec{}, false
	}
	_, profile, instances := strings.Cut(product, "-MIG-")
	if profile == "INVALID" {
		r.add(labelProduct, product, "the cards' MIG mode does not suit the device plugin's strategy")
		return topology.Spec{}, false
	}
	count, ok := in.gfdCount(shared, r)
	if !ok {
		return topology.Spec{}, false
	}
	if instances {
		// Strategy "single": nvidia.com/gpu counts MIG instances. Each is a card of its own, of unknown size so that
		// it is given out whole only, and of unknown links because instances have none.
		cards := flatCards(count)
		for i := range cards {
			cards[i].Product = intern(product)
		}
		return topology.Spec{Cards: cards}, true
	}
	spec, ok := topology.Lookup(product, count)
	if !ok {
		spec = topology.Spec{Cards: flatCards(count)}
	}
	spec.Cards = slices.Clone(spec.Cards)
	in.gfdCards(spec.Cards, product, r)
	in.cutMIG(spec.Cards, r)
	return spec, true
}

// gfdCount reads the number of cards. Labels without a count (they can be set by hand) take it from the node's
// status, unless that counts shares.
func (in *input) gfdCount(shared bool, r *report) (int, bool) {
	value, ok := in.node.Labels[labelCount]
	if !ok {
		if n := in.total(resourceGPU); n > 0 && n <= topology.MaxCards && !shared && in.replicas() == 1 {
			return int(n), true
		}
		r.add(labelCount, "", "is missing: the number of cards is not known")
		return 0, false
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > topology.MaxCards {
		r.add(labelCount, value, fmt.Sprintf("is no count from 1 to %d", topology.MaxCards))
		return 0, false
	}
	return n, true
}

// gfdCards sets what the labels say of every card.
func (in *input) gfdCards(cards []topology.Card, product string, r *report) {
	memory, fault := int64(0), ""
	if value, ok := in.node.Labels[labelMemory]; ok {
		n, err := strconv.ParseInt(value, 10, 64)
		if memory, fault = memoryBytes(n); err != nil {
			fault = "memory is not a number of MiB"
		}
		if fault != "" {
			r.add(labelMemory, value, "cards are closed: "+fault)
		}
	}
	for i := range cards {
		c := &cards[i]
		c.Product, c.Healthy, c.VRAMBytes = intern(product), true, memory
		if fault != "" {
			closeCard(c, fault)
		}
	}
}

// cutMIG puts the cards in MIG mode that the node's MIG instances need (strategy "mixed"). All that is known is the
// number of instances of each profile, and the number of cards that are offered whole; the cards in MIG mode are
// taken to be those with the highest indices. Where the instances do not fit those cards, the cards are closed.
func (in *input) cutMIG(cards []topology.Card, r *report) {
	counts, ok := in.migCounts(r)
	if ok && len(counts) == 0 {
		return
	}
	offered := max(in.total(resourceGPU), in.total(resourceSharedGPU))
	whole := int(min(offered/in.replicas(), int64(len(cards))))
	mig := cards[whole:]
	var layout [][]topology.MIGInstance
	if ok {
		layout, ok = layoutMIG(counts, len(mig), cards[0].Product, cards[0].VRAMBytes)
	}
	if !ok {
		in.closeMIG(cards, mig, r)
		return
	}
	for i := range mig {
		c := &mig[len(mig)-1-i] // from the last card down: it stays in place when the number of whole cards changes
		c.MIGEnabled = true
		if i < len(layout) {
			c.MIG = layout[i]
		}
	}
}

// closeMIG closes the cards in MIG mode, whose instances are not known or do not fit them. Where there is no card but
// those that are offered whole, nobody knows which have instances: then it closes all.
func (in *input) closeMIG(cards, mig []topology.Card, r *report) {
	if len(mig) == 0 {
		mig = cards
	}
	for i := range mig {
		mig[i].MIGEnabled = true
		closeCard(&mig[i], faultLayout)
	}
	r.add(labelProduct, cards[0].Product, fmt.Sprintf("%d of %d cards are closed: %s", len(mig), len(cards), faultLayout))
}

// migCounts reads how many instances of each profile the node has: what the labels count, else what the status
// counts. The profiles come in the order of their names. ok is false if one of them cannot be read: then the layout
// of the node's cards in MIG mode is not known.
func (in *input) migCounts(r *report) (counts []migCount, ok bool) {
	found, ok := in.migAmounts(r)
	for _, key := range sortedKeys(in.node.Labels) {
		profile, isCount := cutMIGLabel(key, ".count")
		if !isCount {
			continue
		}
		n, err := strconv.ParseInt(in.label(key), 10, 32)
		if err != nil || n < 0 {
			r.add(key, in.label(key), "is not a count")
			if _, counted := found[profile]; !counted {
				ok = false
			}
			continue
		}
		name := v1.ResourceName(migPrefix + profile)
		if offered, known := in.offered(name, r); known && offered < n {
			r.add(statusField(name), strconv.FormatInt(offered, 10),
				fmt.Sprintf("the kubelet offers %d of %d instances, and nothing says which it withholds", offered, n))
		}
		found[profile] = n
	}
	for _, name := range sortedKeys(found) {
		n := found[name]
		if n == 0 {
			continue
		}
		p, known := parseMIGProfile(name)
		if !known || n > slicesPerCard*topology.MaxCards {
			r.add(migPrefix+name, strconv.FormatInt(n, 10), "is no MIG profile with a possible count")
			ok = false
			continue
		}
		bytes := int64(0)
		if mem, err := strconv.ParseInt(in.label(migPrefix+name+".memory"), 10, 64); err == nil {
			bytes, _ = memoryBytes(mem)
		}
		counts = append(counts, migCount{profile: p, count: int(n), bytes: bytes})
	}
	return counts, ok
}

// migAmounts reads the larger of capacity and allocatable amount of every MIG resource, by profile.
func (in *input) migAmounts(r *report) (found map[string]int64, ok bool) {
	found, ok = make(map[string]int64), true
	for _, list := range []v1.ResourceList{in.node.Status.Capacity, in.node.Status.Allocatable} {
		for _, name := range sortedKeys(list) {
			profile, isMIG := strings.CutPrefix(string(name), migPrefix)
			if !isMIG || strings.HasSuffix(profile, ".shared") {
				continue
			}
			q := list[name]
			if n, whole := q.AsInt64(); !whole || n < 0 {
				r.add(statusField(name), q.String(), "is not a count")
				ok = false
			}
			found[profile] = in.total(name)
		}
	}
	return found, ok
}

// cutMIGLabel returns the profile in a label key "nvidia.com/mig-<profile><suffix>".
func cutMIGLabel(key, suffix string) (string, bool) {
	profile, ok := strings.CutPrefix(key, migPrefix)
	if !ok {
		return "", false
	}
	return strings.CutSuffix(profile, suffix)
}

// total is the larger of a resource's capacity and allocatable amounts, 0 without it and for an amount that is no
// count: the kubelet counts sick devices in the capacity only.
func (in *input) total(name v1.ResourceName) int64 {
	n := int64(0)
	for _, list := range []v1.ResourceList{in.node.Status.Capacity, in.node.Status.Allocatable} {
		if q, ok := list[name]; ok {
			if amount, whole := q.AsInt64(); whole {
				n = max(n, amount)
			}
		}
	}
	return n
}
