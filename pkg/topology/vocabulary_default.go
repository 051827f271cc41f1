package topology

// The label keys of the built-in vocabulary. Where a source says which of its keys is the closest switch and which the
// next, they are leaf, spine and core in that order. Not used are keys that name no part of the fabric: reservations
// (topology.k8s.aws/capacity-block-id) and properties (backend.coreweave.cloud/flavor, ib.coreweave.cloud/speed).
const (
	// Kubernetes, well-known labels.
	keyHostname = "kubernetes.io/hostname"
	keyZone     = "topology.kubernetes.io/zone"
	keyRegion   = "topology.kubernetes.io/region"

	// NVIDIA GPU Feature Discovery: ClusterUUID.CliqueID, only on multi-node NVLink systems whose fabric is up. GPUs
	// reach each other by NVLink inside one clique, hence the whole value.
	keyClique = "nvidia.com/gpu.clique"

	// topograph from v1.0 (docs/reference/node-labels.md): tier 0 is the closest switch. Tiers above 2 are wider than
	// LevelCore and add nothing below the zone. A sub-domain is a part of a domain, so it goes first.
	keyTier0     = "fabric.topograph.run/tier-0"
	keyTier1     = "fabric.topograph.run/tier-1"
	keyTier2     = "fabric.topograph.run/tier-2"
	keySubDomain = "accelerator.topograph.run/sub-domain"
	keyDomain    = "accelerator.topograph.run/domain"

	// topograph v0.3 to v0.5, and the names of still older versions, in which block is the closest switch.
	keyOldAccelerator = "network.topology.nvidia.com/accelerator"
	keyOldLeaf        = "network.topology.nvidia.com/leaf"
	keyOldBlock       = "network.topology.nvidia.com/block"
	keyOldSpine       = "network.topology.nvidia.com/spine"
	keyOldCore        = "network.topology.nvidia.com/core"
	keyOldDatacenter  = "network.topology.nvidia.com/datacenter"

	// GKE (topology labels of A3 and later machines). A sub-block is one NVL72 rack on A4X machines only; there
	// keyClique says so.
	keyGCEHost     = "cloud.google.com/gce-topology-host"
	keyGCESubblock = "cloud.google.com/gce-topology-subblock"
	keyGCEBlock    = "cloud.google.com/gce-topology-block"

	// EKS (user guide, "network topology labels"): layer 1 is the broadest; the closest is layer 4 on instance types
	// with four layers, layer 3 on all others. The UltraServer, one NVLink domain, is labelled by SageMaker HyperPod.
	keyAWSLayer1      = "topology.k8s.aws/network-node-layer-1"
	keyAWSLayer2      = "topology.k8s.aws/network-node-layer-2"
	keyAWSLayer3      = "topology.k8s.aws/network-node-layer-3"
	keyAWSLayer4      = "topology.k8s.aws/network-node-layer-4"
	keyAWSUltraServer = "topology.k8s.aws/ultraserver-id"

	// OKE: a local block is the nodes below one leaf switch, a network block several of them, an HPC island all blocks
	// of one RDMA network. The host.* labels are the ones of nodes without the rdma.* ones.
	keyOCIHost         = "oci.oraclecloud.com/rdma.host_id"
	keyOCILocalBlock   = "oci.oraclecloud.com/rdma.local_block_id"
	keyOCINetworkBlock = "oci.oraclecloud.com/rdma.network_block_id"
	keyOCIIsland       = "oci.oraclecloud.com/rdma.hpc_island_id"
	keyOCIHostID       = "oci.oraclecloud.com/host.id"
	keyOCIHostSerial   = "oci.oraclecloud.com/host.serial_number"
	keyOCIHostRack     = "oci.oraclecloud.com/host.rack_id"
	keyOCIHostBlock    = "oci.oraclecloud.com/host.network_block_id"

	// CoreWeave (InfiniBand and RoCE labels): a leaf group is the switches that serve a common set of nodes. Nodes whose
	// fabric labels are empty still have a rack.
	keyCWNVLink        = "ds.coreweave.com/nvlink.domain"
	keyCWLeafGroup     = "backend.coreweave.cloud/leafgroup"
	keyCWLeafGroupName = "backend.coreweave.cloud/leafgroup-name"
	keyCWFabric        = "backend.coreweave.cloud/fabric"
	keyCWIBLeafGroup   = "ib.coreweave.cloud/leafgroup"
	keyCWIBSuperpod    = "ib.coreweave.cloud/superpod"
	keyCWIBFabric      = "ib.coreweave.cloud/fabric"
	keyCWRack          = "node.coreweave.cloud/rack"

	// Nebius: tier 0 is one NVLink rack and only there; without it tier 1 is the closest, and the GPU cluster, one
	// InfiniBand fabric, stands above tier 2.
	keyNebiusNVL     = "topology.nebius.com/nvl-instance-group-id"
	keyNebiusTier0   = "topology.nebius.com/tier-0"
	keyNebiusTier1   = "topology.nebius.com/tier-1"
	keyNebiusTier2   = "topology.nebius.com/tier-2"
	keyNebiusCluster = "topology.nebius.com/gpu-cluster-id"

	// Crusoe: a pod is the hosts that share a set of leaf switches, a partition one isolated InfiniBand network.
	keyCrusoePod           = "crusoe.ai/pod.id"
	keyCrusoePartition     = "crusoe.ai/ib.partition.id"
	keyCrusoePartitionName = "crusoe.ai/ib.partition.name"

	// Alibaba ACK Lingjun: the access switch, and the point of delivery with several of them.
	keyLingjunASW = "alibabacloud.com/asw-id"
	keyLingjunPoD = "alibabacloud.com/point-of-delivery"

	// AKS: a proximity placement group keeps machines in one data centre.
	keyAzurePPG = "kubernetes.azure.com/ppg"

	// Volcano, the labels of its examples of network topology discovery.
	keyVolcanoTOR          = "volcano.sh/tor"
	keyVolcanoHyperNode    = "volcano.sh/hypernode"
	keyVolcanoHyperCluster = "volcano.sh/hypercluster"
)

// DefaultLevels returns the built-in vocabulary: the labels of every generation of topograph, of GPU Feature Discovery
// and of the clouds, from LevelHost to LevelRegion. The result is the caller's.
func DefaultLevels() []LevelKeys {
	return []LevelKeys{
		{Level: LevelHost, Keys: wholeValues(
			keyHostname, keyGCEHost, keyOCIHost, keyOCIHostID, keyOCIHostSerial,
		)},
		{Level: LevelNVLink, Keys: wholeValues(
			keyClique, keySubDomain, keyDomain, keyOldAccelerator, keyCWNVLink, keyNebiusNVL, keyAWSUltraServer,
		)},
		{Level: LevelLeaf, Keys: wholeValues(
			keyTier0, keyOldLeaf, keyOldBlock, keyGCESubblock, keyAWSLayer4, keyAWSLayer3, keyOCILocalBlock,
			keyOCIHostRack, keyCWLeafGroup, keyCWLeafGroupName, keyCWIBLeafGroup, keyCWRack, keyNebiusTier0,
			keyNebiusTier1, keyCrusoePod, keyLingjunASW, keyVolcanoTOR, keyVolcanoHyperNode,
		)},
		{Level: LevelSpine, Keys: wholeValues(
			keyTier1, keyOldSpine, keyGCEBlock, keyAWSLayer3, keyAWSLayer2, keyOCINetworkBlock, keyOCIHostBlock,
			keyCWIBSuperpod, keyNebiusTier1, keyNebiusTier2, keyCrusoePartition, keyCrusoePartitionName, keyLingjunPoD,
			keyVolcanoHyperCluster,
		)},
		{Level: LevelCore, Keys: wholeValues(
			keyTier2, keyOldCore, keyOldDatacenter, keyAWSLayer2, keyAWSLayer1, keyOCIIsland, keyCWFabric, keyCWIBFabric,
			keyNebiusTier2, keyNebiusCluster, keyAzurePPG,
		)},
		{Level: LevelZone, Keys: wholeValues(keyZone)},
		{Level: LevelRegion, Keys: wholeValues(keyRegion)},
	}
}

// wholeValues are keys whose whole value names the domain.
func wholeValues(keys ...string) []LabelKey {
	out := make([]LabelKey, len(keys))
	for i, k := range keys {
		out[i].Key = k
	}
	return out
}
