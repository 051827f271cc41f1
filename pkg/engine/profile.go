package engine

import (
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// GateName is the name of the plugin that keeps pods out of the scheduling queue for which an attempt would be in vain.
const GateName = "GPUCapacityGate"

// CardsName is the name of the plugin that chooses cards.
const CardsName = "GPUTopology"

// Gates reports whether a profile runs that plugin. It is known once all plugins of the profile are built. A profile that cannot be
// asked does not: then nobody is kept out of the queue.
func Gates(profile fwk.Handle) bool {
	return runsAll(profile, func(p *schedconfig.Plugins) *schedconfig.PluginSet { return &p.PreEnqueue }, GateName)
}

// Filters reports whether a profile runs all of these filters, once all its plugins are built.
func Filters(profile fwk.Handle, names ...string) bool {
	return runsAll(profile, func(p *schedconfig.Plugins) *schedconfig.PluginSet { return &p.Filter }, names...)
}

func runsAll(profile fwk.Handle, point func(*schedconfig.Plugins) *schedconfig.PluginSet, names ...string) bool {
	plugins := PluginsOf(profile)
	return plugins != nil && !slices.ContainsFunc(names, func(name string) bool { return IndexOf(point(plugins), name) < 0 })
}

// PluginsOf returns the plugins that a profile runs, by extension point, once all of them are built; nil for a profile that cannot be
// asked.
func PluginsOf(profile fwk.Handle) *schedconfig.Plugins {
	lister, ok := profile.(interface{ ListPlugins() *schedconfig.Plugins })
	if !ok {
		return nil
	}
	return lister.ListPlugins()
}

// IndexOf returns where a plugin stands at an extension point, -1 if it is not enabled there.
func IndexOf(point *schedconfig.PluginSet, name string) int {
	return slices.IndexFunc(point.Enabled, func(p schedconfig.Plugin) bool { return p.Name == name })
}
