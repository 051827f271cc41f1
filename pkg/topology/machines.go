package topology

// What the entries assume, in the words of Machine.Assumes.
const (
	assumesBoard = "half of the cards on each of two NUMA nodes (a host set to more of them, such as NPS4, has more); PCIe: "
	assumesPCIe  = "half of the cards, rounded up, on each of two NUMA nodes, joined by NODE inside one and by SYS across; PCIe switches unknown"
)

var upToEight = []int{1, 2, 3, 4, 5, 6, 7, 8}

// entries is searched from the top. Numbers of NVLinks: NVIDIA's data sheets, and for the entries marked "seen"
// public readouts of nvidia-smi topo -m. A board of four is wired card to card, so that each pair has a third of a
// card's links; a board of eight is wired to NVSwitches, so that each pair has all of them.
var entries = []entry{
	{ // seen with 8 and with 4 cards (the first half of the same board)
		name: "V100-SXM2 hybrid cube mesh", product: "Tesla V100-SXM2-16GB", models: wordList("V100"), oneOf: wordList("SXM2"),
		counts: []int{1, 4, 8}, link: hybridCubeMesh, perSwitch: 2,
		assumes: assumesBoard + "two cards a switch",
	},
	{
		name: "V100-SXM3 NVSwitch", product: "Tesla V100-SXM3-32GB", models: wordList("V100"), oneOf: wordList("SXM3"),
		counts: []int{1, 8, 16}, link: meshOf(6), perSwitch: 2,
		assumes: assumesBoard + "two cards a switch",
	},
	{ // seen
		name: "HGX A100 8-GPU", product: "NVIDIA A100-SXM4-40GB", models: wordList("A100"), oneOf: wordList("SXM4"),
		counts: []int{1, 8, 16}, link: meshOf(12), perSwitch: 2,
		assumes: assumesBoard + "two cards a switch",
	},
	{
		name: "HGX A100 4-GPU", product: "NVIDIA A100-SXM4-40GB", models: wordList("A100"), oneOf: wordList("SXM4"),
		counts: []int{4}, link: meshOf(4), perSwitch: 1,
		assumes: "the board of four and not half a board of eight, which has 12 links a pair; " + assumesBoard + "one card a switch",
	},
	{ // seen
		name: "HGX A800 8-GPU", product: "NVIDIA A800-SXM4-80GB", models: wordList("A800"), oneOf: wordList("SXM4"),
		counts: []int{1, 8}, link: meshOf(8), perSwitch: 2,
		assumes: assumesBoard + "two cards a switch",
	},
	{ // seen
		name: "HGX H100 8-GPU", product: "NVIDIA H100 80GB HBM3", models: wordList("H100"), oneOf: wordList("HBM3 SXM5 SXM"), noneOf: wordList("NVL PCIE"),
		counts: []int{1, 8}, link: meshOf(18), perSwitch: 1,
		assumes: assumesBoard + "one card a switch",
	},
	{
		name: "HGX H100 4-GPU", product: "NVIDIA H100 80GB HBM3", models: wordList("H100"), oneOf: wordList("HBM3 SXM5 SXM"), noneOf: wordList("NVL PCIE"),
		counts: []int{4}, link: meshOf(6), perSwitch: 1,
		assumes: "the board of four and not half a board of eight, which has 18 links a pair; " + assumesBoard + "one card a switch",
	},
	{
		name: "HGX H800 8-GPU", product: "NVIDIA H800", models: wordList("H800"), noneOf: wordList("NVL PCIE"),
		counts: []int{1, 8}, link: meshOf(8), perSwitch: 1,
		assumes: assumesBoard + "one card a switch",
	},
	{
		name: "HGX H200 8-GPU", product: "NVIDIA H200", models: wordList("H200 H20"), noneOf: wordList("NVL PCIE"),
		counts: []int{1, 8}, link: meshOf(18), perSwitch: 1,
		assumes: assumesBoard + "one card a switch",
	},
	{
		name: "HGX H200 4-GPU", product: "NVIDIA H200", models: wordList("H200"), noneOf: wordList("NVL PCIE"),
		counts: []int{4}, link: meshOf(6), perSwitch: 1,
		assumes: "the board of four and not half a board of eight, which has 18 links a pair; " + assumesBoard + "one card a switch",
	},
	{
		name: "HGX B200 8-GPU", product: "NVIDIA B200", models: wordList("B200 B300"),
		counts: []int{1, 8}, link: meshOf(18), perSwitch: 1,
		assumes: assumesBoard + "one card a switch",
	},
	{
		name: "B200 4-GPU", product: "NVIDIA B200", models: wordList("B200"),
		counts: []int{4}, link: meshOf(6), perSwitch: 1,
		assumes: "a board of four wired card to card and not half a board of eight, which has 18 links a pair; " + assumesBoard + "one card a switch",
	},
	{ // seen
		name: "GB200 NVL72 compute tray", product: "NVIDIA GB200", models: wordList("GB200 GB300"),
		counts: []int{1, 4}, link: meshOf(18), perSwitch: 1,
		assumes: "two cards at each of two Grace CPUs, each on a PCIe root of its own",
	},
	{
		name: "A100 PCIe", product: "NVIDIA A100-PCIE-40GB", models: wordList("A100"), oneOf: wordList("PCIE"),
		counts: upToEight, link: sockets, bridge: 12, assumes: assumesPCIe,
	},
	{
		name: "A800 PCIe", product: "NVIDIA A800 80GB PCIe", models: wordList("A800"), oneOf: wordList("PCIE"),
		counts: upToEight, link: sockets, bridge: 8, assumes: assumesPCIe,
	},
	{
		name: "H100 PCIe", product: "NVIDIA H100 PCIe", models: wordList("H100"), oneOf: wordList("PCIE NVL"),
		counts: upToEight, link: sockets, bridge: 12, assumes: assumesPCIe,
	},
	{
		name: "H200 NVL", product: "NVIDIA H200 NVL", models: wordList("H200"), oneOf: wordList("PCIE NVL"),
		counts: upToEight, link: sockets, bridge: 18, assumes: assumesPCIe,
	},
	{
		name: "A30", product: "NVIDIA A30", models: wordList("A30"),
		counts: upToEight, link: sockets, bridge: 4, assumes: assumesPCIe,
	},
	{
		name: "A40 and RTX A6000", product: "NVIDIA A40", models: wordList("A40 A6000"),
		counts: upToEight, link: sockets, bridge: 4, assumes: assumesPCIe,
	},
	{ // L40S seen with 4 cards
		name: "PCIe cards without NVLink", product: "NVIDIA L40S", models: wordList("L40S L40 L20 L4 T4 A10 A10G A16 A2 P4 P40 V100S"),
		counts: upToEight, link: sockets, assumes: assumesPCIe,
	},
	{
		name: "V100 and P100 PCIe", product: "Tesla V100-PCIE-32GB", models: wordList("V100 P100"), oneOf: wordList("PCIE"),
		counts: upToEight, link: sockets, assumes: assumesPCIe,
	},
}
