// Package manifests tests the files under manifests/ without a cluster: every kustomization builds, every object decodes
// strictly, the scheduler's rights have no wildcard, its pod is locked down, and the shipped KubeSchedulerConfiguration
// decodes and validates as the scheduler itself would do it.
//
//	manifests/*/kustomization.yaml -> kustomize -> objects -> one test for each property
//	manifests/base/scheduler-config.yaml -> the scheduler's decoder -> defaults -> validation
package manifests
