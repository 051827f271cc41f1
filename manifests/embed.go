package manifests

import (
	"embed"
	"io/fs"
)

const (
	// Kustomization names the file that lists the others.
	Kustomization = "kustomization.yaml"
	// SchedulerConfig names the file with the KubeSchedulerConfiguration.
	SchedulerConfig = "scheduler-config.yaml"
	// PodGroupCRD names the file with the CustomResourceDefinition of PodGroups.
	PodGroupCRD = "podgroup.yaml"
)

//go:embed base/*.yaml crds/*.yaml
var files embed.FS

// Base returns the files of manifests/base. The error is nil unless the program was built wrongly.
func Base() (fs.FS, error) { return fs.Sub(files, "base") }

// CRDs returns the files of manifests/crds. The error is nil unless the program was built wrongly.
func CRDs() (fs.FS, error) { return fs.Sub(files, "crds") }
