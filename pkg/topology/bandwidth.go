package topology

import (
	"math"
	"strconv"
)

// Bandwidth is a rate in MB/s (10^6 bytes a second), one direction. It is an integer so that sums and
// comparisons are exact and no choice of cards depends on rounding.
type Bandwidth int64

// GBps returns the rate in GB/s.
func (b Bandwidth) GBps() float64 { return float64(b) / 1000 }

// FromGBps converts GB/s, rounded to MB/s; NaN, negative and infinite rates give 0.
func FromGBps(gbps float64) Bandwidth {
	mb := math.Round(gbps * 1000)
	if !(mb > 0) || mb > 1e15 {
		return 0
	}
	return Bandwidth(mb)
}

// String formats the rate in GB/s with one decimal, for example "370.8 GB/s".
func (b Bandwidth) String() string {
	return strconv.FormatFloat(b.GBps(), 'f', 1, 64) + " GB/s"
}
