package config

// SetDefaults fills in what the file leaves out.
func SetDefaults(args *GPUTopologyArgs) {
	if args.NUMAPolicy == "" {
		args.NUMAPolicy = NUMAPolicyPrefer
	}
	if args.NodePacking == "" {
		args.NodePacking = NodePackingPack
	}
}
