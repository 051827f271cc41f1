package request

import "github.com/gputopology/gpu-topology-scheduler/pkg/allocate"

// gpuResource is the resource of NVIDIA's device plugin: whole cards, unless HAMi's resources stand beside it.
const gpuResource = nvidiaPrefix + "gpu"

// describeWhole reads nvidia.com/gpu as a number of whole cards.
func (w *wish) describeWhole(c *container) (description, error) {
	shares, err := readHAMi(c)
	if err != nil {
		return description{}, err
	}
	if shares.asked() {
		return description{}, nil
	}
	n, err := shares.gpu.whole(maxCards)
	if err != nil || n == 0 {
		return description{}, err
	}
	return described(allocate.Claim{Kind: allocate.KindWhole, Count: n}, &shares.gpu), nil
}
