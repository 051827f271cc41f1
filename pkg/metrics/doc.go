// Package metrics declares every metric of the scheduler once.
//
// They stand in the registry that kube-scheduler serves at /metrics, under the subsystem gpu_topology_scheduler.
// Label values come from small fixed sets, or, for products, node pools and MIG profiles, from bounded ones (State); no label
// carries a pod, node or card name. Counters and histograms are told by whoever does the thing, gauges are read from the
// engine when metrics are gathered (Show), so that they cannot differ from what they show.
package metrics
