// Package metrics declares every metric of the scheduler once.
//
// They stand in the registry that kube-scheduler serves at /metrics, under the subsystem gpu_topology_scheduler.
// Label values come from small fixed sets; no label carries a pod, node or card name.
package metrics
