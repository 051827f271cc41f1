package podgroup

import (
	"strconv"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
)

// Wish is what a PodGroup asks of the fabric. Levels are as their user wrote them, the name of a level or a label key: which
// level that is depends on the cluster.
type Wish struct {
	// Required is the level of which one domain must hold the gang, Preferred one that should; "" if not asked for.
	Required, Preferred string
	// SliceSize members, consecutive in rank, must share one domain of SliceLevel; 0 if not asked for.
	SliceSize  int
	SliceLevel string
	// Interconnect is v1alpha1.InterconnectNVLink, v1alpha1.InterconnectRDMA, or "" for any node.
	Interconnect string
}

// readWish reads the annotations about the fabric.
func (g *Group) readWish(annotations map[string]string, refuse refuser) {
	field := func(key string) string { return "metadata.annotations[" + key + "]" }
	level := func(key string) string {
		value, has := annotations[key]
		if has && value == "" {
			refuse(field(key), value, "must name a level or a label key")
		}
		return value
	}
	g.Wish = Wish{Required: level(v1alpha1.RequiredTopologyAnnotation), Preferred: level(v1alpha1.PreferredTopologyAnnotation)}
	size, sized := annotations[v1alpha1.SliceSizeAnnotation]
	g.Wish.SliceLevel = level(v1alpha1.SliceTopologyAnnotation)
	switch n, err := strconv.Atoi(size); {
	case !sized && g.Wish.SliceLevel == "":
	case !sized:
		refuse(field(v1alpha1.SliceTopologyAnnotation), g.Wish.SliceLevel, "means nothing without "+v1alpha1.SliceSizeAnnotation)
	case err != nil || n < 1:
		refuse(field(v1alpha1.SliceSizeAnnotation), size, "must be a whole number of 1 or more")
	case g.Wish.SliceLevel == "":
		refuse(field(v1alpha1.SliceSizeAnnotation), size, "means nothing without "+v1alpha1.SliceTopologyAnnotation)
	default:
		g.Wish.SliceSize = n
	}
	switch value, has := annotations[v1alpha1.RequireInterconnectAnnotation]; {
	case !has:
	case value == v1alpha1.InterconnectNVLink || value == v1alpha1.InterconnectRDMA:
		g.Wish.Interconnect = value
	default:
		refuse(field(v1alpha1.RequireInterconnectAnnotation), value, "must be "+v1alpha1.InterconnectNVLink+" or "+v1alpha1.InterconnectRDMA)
	}
}
