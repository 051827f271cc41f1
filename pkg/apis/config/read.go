package config

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
)

// Read returns the arguments that the scheduler hands to the factory of a plugin: defaults where it has none, an error that
// names the plugin where they are of another type or do not pass validate. The scheduler looks for the arguments of a plugin
// under its name and "Args".
func Read[T any, P interface {
	*T
	runtime.Object
}](plugin string, object runtime.Object, setDefaults func(P), validate func(P) error) (P, error) {
	args, ok := object.(P)
	if !ok {
		if object != nil {
			return nil, fmt.Errorf("args of plugin %s are of type %T, want %sArgs", plugin, object, plugin)
		}
		args = new(T)
		setDefaults(args)
	}
	if err := validate(args); err != nil {
		return nil, fmt.Errorf("args of plugin %s: %w", plugin, err)
	}
	return args, nil
}
