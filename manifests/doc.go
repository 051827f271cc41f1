// Package manifests holds what ships for installation, so that programs which run it without a cluster (the demo, the
// benchmarks, tests) use exactly those files and depend on no working directory.
//
//	base/                       the second scheduler: RBAC, Deployment, configuration; see base/kustomization.yaml
//	base/scheduler-config.yaml  the one KubeSchedulerConfiguration that ships
//	crds/podgroup.yaml          the PodGroup API, which must not be put over one that is there; see its first lines
package manifests
