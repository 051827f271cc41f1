package v1alpha1

// GroupName is the prefix of every key of this project.
const GroupName = "gputopology.io"

// Keys that this project writes.
const (
	// AllocationAnnotation, on a pod, holds its Record. The scheduler writes it on the Binding: a bound pod has it,
	// an unbound one has not.
	AllocationAnnotation = GroupName + "/allocation"
	// TopologyAnnotation, on a node, describes its cards (ParseTopology). Written by an administrator or an agent.
	TopologyAnnotation = GroupName + "/topology"
)

// Keys of a pod's request.
const (
	// VRAMResource is an extended resource of a container: bytes of memory that it wants on each of its cards.
	// It is kept out of the node's allocatable, so the scheduler must have NodeResourcesFit ignore the group.
	VRAMResource = GroupName + "/vram"
	// VRAMCardsAnnotation is the number of cards on which each container with VRAMResource wants that memory,
	// 1 to 64; 1 if absent.
	VRAMCardsAnnotation = GroupName + "/vram-cards"
	// ComputeMilliAnnotation is the compute that goes with VRAMResource on each card, in thousandths of a card,
	// 0 to 1000; absent or 0 promises none.
	ComputeMilliAnnotation = GroupName + "/compute-milli"
	// NUMAPolicyAnnotation says what a pod wants of the NUMA nodes of its cards: PolicyNone, PolicyPrefer or
	// PolicyRequire. If absent, the scheduler's configuration decides.
	NUMAPolicyAnnotation = GroupName + "/numa-policy"
	// NICProximityAnnotation says whether a pod's cards need a network adapter at PIX or PXB: PolicyNone (as if
	// absent), PolicyPrefer or PolicyRequire.
	NICProximityAnnotation = GroupName + "/nic-proximity"
)

// Values of NUMAPolicyAnnotation and NICProximityAnnotation. They are compared exactly: no other case, no blanks.
const (
	// PolicyNone ignores the property.
	PolicyNone = "none"
	// PolicyPrefer picks the better set of cards among sets of equal bandwidth.
	PolicyPrefer = "prefer"
	// PolicyRequire accepts no other set.
	PolicyRequire = "require"
)

// PodGroupLabel is a label of a pod: it names the PodGroup of scheduling.x-k8s.io in the pod's namespace whose member it is. The
// scheduler-plugins project defined it; operators of training jobs write it.
const PodGroupLabel = "scheduling.x-k8s.io/pod-group"

// Keys of a gang.
const (
	// OnMemberLossAnnotation, on a PodGroup, says what happens when a gang that ran loses a member: MemberLossReplace
	// (as if absent), MemberLossKeep or MemberLossEvict.
	OnMemberLossAnnotation = GroupName + "/on-member-loss"
	// WaitingReasonAnnotation, on a PodGroup, is one sentence on what its gang waits for. The scheduler writes it, and
	// removes it when the gang no longer waits.
	WaitingReasonAnnotation = GroupName + "/waiting-reason"
	// RankAnnotation, on a pod, is its place in the order of its gang, 0 or more.
	RankAnnotation = GroupName + "/rank"
	// RequiredTopologyAnnotation, on a PodGroup or its pods, is a level of the fabric, by name ("leaf") or by the label key
	// of the level: the whole gang, or all pods of that role, go into one domain of it or wait.
	RequiredTopologyAnnotation = GroupName + "/required-topology"
	// PreferredTopologyAnnotation is the same as a wish. The scheduler always looks for the narrowest domain; the wish is
	// checked and shown.
	PreferredTopologyAnnotation = GroupName + "/preferred-topology"
	// SliceSizeAnnotation and SliceTopologyAnnotation, on a PodGroup, ask that every so many members, consecutive in rank, go
	// into one domain of the level.
	SliceSizeAnnotation     = GroupName + "/slice-size"
	SliceTopologyAnnotation = GroupName + "/slice-topology"
	// RequireInterconnectAnnotation, on a PodGroup, refuses nodes without InterconnectNVLink between their cards or without
	// InterconnectRDMA near them.
	RequireInterconnectAnnotation = GroupName + "/require-interconnect"
	// LayoutAnnotation, on a PodGroup, says which domains, nodes and ranks its gang has. The scheduler writes it.
	LayoutAnnotation = GroupName + "/layout"
)

// NCCLHintAnnotation is an annotation of a node: JSON with measured qualities of its cards: {"pciProximity":0.92,"nvlinkBandwidth":1.0}.
const NCCLHintAnnotation = GroupName + "/nccl-hint"

// Values of RequireInterconnectAnnotation. They are compared exactly.
const (
	InterconnectNVLink = "nvlink"
	InterconnectRDMA   = "rdma"
)

// Values of OnMemberLossAnnotation. They are compared exactly: no other case, no blanks.
const (
	// MemberLossReplace schedules a replacement beside the members that are left.
	MemberLossReplace = "Replace"
	// MemberLossKeep leaves the other members alone; a replacement is scheduled by itself.
	MemberLossKeep = "Keep"
	// MemberLossEvict removes the other members through the eviction API, and schedules the gang as a whole again.
	MemberLossEvict = "Evict"
)

// The record dialects: annotations of node agents that the scheduler can write beside AllocationAnnotation. The values are
// what recordDialects in the plugin's arguments accepts.
const (
	// DialectHAMi is for HAMi's device plugin.
	DialectHAMi = "hami"
	// DialectKoordinator is for koordlet.
	DialectKoordinator = "koordinator"
	// DialectVolcano is for volcano-vgpu-device-plugin.
	DialectVolcano = "volcano"
)

// Dialects returns all record dialects, ascending.
func Dialects() []string { return []string{DialectHAMi, DialectKoordinator, DialectVolcano} }

// MaxAnnotationBytes bounds one annotation. It is what the API server allows for all annotations of an object
// together (k8s.io/apimachinery, validation.TotalAnnotationSizeLimitB).
const MaxAnnotationBytes = 256 << 10
