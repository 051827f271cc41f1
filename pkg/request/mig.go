package request

import (
	"strings"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
)

// migPrefix begins the resources that NVIDIA's device plugin has for MIG instances, strategy "mixed".
const migPrefix = nvidiaPrefix + "mig-"

// maxProfile is the longest name after the slash of a resource, 63 characters.
const maxProfile = 63

// migClaims reads nvidia.com/mig-<profile>, in the order of the resource names.
func migClaims(c *container) ([]allocate.Claim, error) {
	var claims []allocate.Claim
	for _, name := range c.names(migPrefix) {
		instances, err := c.amount(name)
		if err != nil {
			return nil, err
		}
		n, err := instances.whole(maxInstances)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			continue
		}
		profile := v1alpha1.Profile(strings.TrimPrefix(string(name), migPrefix))
		if profile == "" || len(profile) > maxProfile {
			return nil, instances.refuse("names no MIG profile")
		}
		claims = append(claims, allocate.Claim{Container: c.name, Phase: c.phase, Kind: allocate.KindMIG, Count: n, Profile: profile})
	}
	return claims, nil
}
