package fabric

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
)

// job is a gang of size pods of 8 GPUs.
type job struct {
	id, size int
	// arrive is when it comes and runtime how long it runs on a ring that is as fast as one host inside, in seconds.
	arrive, runtime float64
}

const (
	// largest is the largest gang.
	largest = 128
	// shortest and longest are the runtimes that count: shorter runs of the trace are failed starts, and the few longer
	// ones would outlast the replay.
	shortest, longest = 60.0, 86400.0
	// gangs arrive in a replay, of which those from first to last are measured.
	gangs, first, last = 240, 60, 210
)

// demand is the distribution of gangs: sizes and runtimes are independent of each other.
//
// Half of the sizes are powers of two from 1 to 128, each as likely as the next; the other half is 1 to 128 with chance
// log((s+1)/s) / log(129), which gives every octave the same weight.
//
// Runtimes are those of the Philly trace from a minute to a day. Where the trace is absent they are lognormal with its
// median, 1186 s, and a standard deviation of the logarithm of 1.9, between the same limits.
type demand struct {
	// upTo are the chances of a size up to each.
	upTo     []float64
	runtimes []float64
	// areaUpTo are the sums of the runtimes up to each.
	areaUpTo []float64
}

func newDemand(runtimes []float64) *demand {
	d := &demand{}
	sum := 0.0
	for s := 1; s <= largest; s++ {
		chance := math.Log(float64(s+1)/float64(s)) / math.Log(largest+1) / 2
		if s&(s-1) == 0 {
			chance += 1. / 8 / 2
		}
		sum += chance
		d.upTo = append(d.upTo, sum)
	}
	if runtimes == nil {
		rng := rand.New(rand.NewPCG(1, 0))
		for range 100_000 {
			runtimes = append(runtimes, 1186*math.Exp(1.9*rng.NormFloat64()))
		}
	}
	d.runtimes = slices.DeleteFunc(slices.Clone(runtimes), func(r float64) bool { return r < shortest || r > longest })
	area := 0.0
	for _, r := range d.runtimes {
		area += r
		d.areaUpTo = append(d.areaUpTo, area)
	}
	return d
}

func (d *demand) size(rng *rand.Rand) int {
	return 1 + min(largest-1, sort.SearchFloat64s(d.upTo, rng.Float64()))
}

// workload draws gangs that offer the load, a part of the hosts that is in use on average.
//
// The first gangs stand at time 0: hosts in use as the load says, by gangs that are met at a moment of a long run, which
// is the likelier the longer they run. The others arrive as a Poisson process of rate load x hosts / mean of size x runtime,
// where the mean is that of the gangs that were drawn: a few long and large ones make up most of it. Example: 847 hosts
// at 80 % and gangs of 105,120 host seconds on average make 23.2 gangs an hour.
func (d *demand) workload(rng *rand.Rand, load float64, hosts int) (standing, arriving []job) {
	for left := int(load * float64(hosts)); left > 0; {
		at := sort.SearchFloat64s(d.areaUpTo, rng.Float64()*d.areaUpTo[len(d.areaUpTo)-1])
		j := job{id: len(standing), size: min(left, d.size(rng)), runtime: rng.Float64() * d.runtimes[at]}
		left -= j.size
		standing = append(standing, j)
	}
	area := 0.0
	for i := range gangs {
		j := job{id: len(standing) + i, size: d.size(rng), runtime: d.runtimes[rng.IntN(len(d.runtimes))]}
		area += float64(j.size) * j.runtime
		arriving = append(arriving, j)
	}
	rate := load * float64(hosts) / (area / gangs)
	now := 0.0
	for i := range arriving {
		now += rng.ExpFloat64() / rate
		arriving[i].arrive = now
	}
	return standing, arriving
}
