package config

import (
	"maps"
	"slices"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// bandwidths finds the rate that a name in GPUTopologyArgs.Bandwidths stands for.
var bandwidths = map[string]func(*topology.Rates) *topology.Bandwidth{
	// One NVLink of a card of the generation.
	"nvlinkPascal":    func(r *topology.Rates) *topology.Bandwidth { return &r.NVLink.Pascal },
	"nvlinkVolta":     func(r *topology.Rates) *topology.Bandwidth { return &r.NVLink.Volta },
	"nvlinkAmpere":    func(r *topology.Rates) *topology.Bandwidth { return &r.NVLink.Ampere },
	"nvlinkGA10x":     func(r *topology.Rates) *topology.Bandwidth { return &r.NVLink.GA10x },
	"nvlinkHopper":    func(r *topology.Rates) *topology.Bandwidth { return &r.NVLink.Hopper },
	"nvlinkBlackwell": func(r *topology.Rates) *topology.Bandwidth { return &r.NVLink.Blackwell },
	"nvlinkOther":     func(r *topology.Rates) *topology.Bandwidth { return &r.NVLink.Other },
	// A PCIe x16 slot of the generation.
	"pcieGen3": func(r *topology.Rates) *topology.Bandwidth { return &r.PCIe.Gen3 },
	"pcieGen4": func(r *topology.Rates) *topology.Bandwidth { return &r.PCIe.Gen4 },
	"pcieGen5": func(r *topology.Rates) *topology.Bandwidth { return &r.PCIe.Gen5 },
	"pcieGen6": func(r *topology.Rates) *topology.Bandwidth { return &r.PCIe.Gen6 },
	// A link that no source described. It must stay below every path across sockets.
	"unknownLink": func(r *topology.Rates) *topology.Bandwidth { return &r.Unknown },
}

// BandwidthNames returns the names that GPUTopologyArgs.Bandwidths may hold, ascending. The fields of topology.Rates of
// the same name say what each is.
func BandwidthNames() []string { return slices.Sorted(maps.Keys(bandwidths)) }

// Rates returns the built-in rates with the arguments' own in their place. The error is one of Validate's.
func (args *GPUTopologyArgs) Rates() (topology.Rates, error) {
	if err := Validate(args); err != nil {
		return topology.Rates{}, err
	}
	return args.rates(), nil
}

// rates leaves out names that do not exist.
func (args *GPUTopologyArgs) rates() topology.Rates {
	rates := topology.DefaultRates()
	for name, gbps := range args.Bandwidths {
		if rate, ok := bandwidths[name]; ok {
			*rate(&rates) = topology.FromGBps(gbps)
		}
	}
	return rates
}
