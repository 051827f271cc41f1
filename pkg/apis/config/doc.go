// Package config holds the arguments of this module's plugins as they stand in a KubeSchedulerConfiguration.
//
//	profiles:
//	  - pluginConfig:
//	      - name: GPUTopology
//	        args:
//	          numaPolicy: Prefer
//	          nodePacking: Pack
//	          recordDialects: [hami]
//	          bandwidths:
//	            pcieGen5: 45
//	      - name: Coscheduling
//	        args:
//	          planTTL: 5s
//	          status: Managed
//
// Importing the package enters GPUTopologyArgs and CoschedulingArgs into the scheduler's own configuration scheme, as its in-tree arguments are:
//
//	YAML --strict decoding--> args --SetDefaults--> New of the plugin --Validate--> used
//
// so that an unknown field, or a value of the wrong kind, stops the start with the field's name, a plugin without
// arguments gets the defaults, and the scheduler can print the configuration that it runs. One Go type stands for the
// internal version and for v1: there is nothing to convert between them yet.
package config
