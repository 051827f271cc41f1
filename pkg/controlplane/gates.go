package controlplane

import (
	"errors"
	"fmt"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
)

// gates is the hold of this process's control planes on the default feature
// gates: the first takes them, equal ones join, the last puts them back.
var gates gateHold

// gateHold guards every field by mu.
type gateHold struct {
	mu      sync.Mutex
	holders int
	dir     string // data directory of the first holder, for errors
	version string
	values  map[string]bool
	undo    func() error
}

// acquire sets the process's default gates as o asks and returns the component
// registry of one API server. release must be called once, when that server
// has ended.
func (h *gateHold) acquire(o *Options) (basecompatibility.ComponentGlobalsRegistry, func() error, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.holders > 0 && (h.version != o.EmulatedVersion || !maps.Equal(h.values, o.FeatureGates)) {
		return nil, nil, fmt.Errorf("options FeatureGates %v and EmulatedVersion %q differ from %v and %q of the control plane on %s: both are process-wide",
			o.FeatureGates, cut(o.EmulatedVersion), h.values, h.version, h.dir)
	}
	own := utilfeature.DefaultMutableFeatureGate.DeepCopy()
	registry, err := newRegistry(o, own)
	if err != nil {
		return nil, nil, err
	}
	if h.holders == 0 {
		undo, err := applyGates(utilfeature.DefaultMutableFeatureGate, own)
		if err != nil {
			return nil, nil, err
		}
		h.dir, h.version, h.values, h.undo = o.DataDir, o.EmulatedVersion, o.FeatureGates, undo
	}
	h.holders++
	return registry, sync.OnceValue(h.release), nil
}

func (h *gateHold) release() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holders--
	if h.holders > 0 {
		return nil
	}
	return h.undo()
}

// newRegistry builds the component registry of one API server around own, and
// sets own as o asks.
func newRegistry(o *Options, own featuregate.MutableVersionedFeatureGate) (basecompatibility.ComponentGlobalsRegistry, error) {
	effective := compatibility.DefaultBuildEffectiveVersion()
	if o.EmulatedVersion != "" {
		v, err := version.ParseMajorMinor(o.EmulatedVersion)
		if err != nil || v.String() != o.EmulatedVersion {
			return nil, fmt.Errorf(`option EmulatedVersion %q: must look like "1.34"`, cut(o.EmulatedVersion))
		}
		effective.SetEmulationVersion(v)
	}
	if errs := effective.Validate(); len(errs) > 0 {
		return nil, fmt.Errorf("option EmulatedVersion %q: %w", cut(o.EmulatedVersion), errors.Join(errs...))
	}
	registry := basecompatibility.NewComponentGlobalsRegistry()
	if err := registry.Register(basecompatibility.DefaultKubeComponent, effective, own); err != nil {
		return nil, fmt.Errorf("option EmulatedVersion %q: %w", cut(o.EmulatedVersion), err)
	}
	if err := own.SetFromMap(o.FeatureGates); err != nil {
		return nil, fmt.Errorf("option FeatureGates: %w", err)
	}
	return registry, nil
}

// applyGates gives dst the versions and values of src and returns what takes
// that back.
func applyGates(dst, src featuregate.MutableVersionedFeatureGate) (undo func() error, err error) {
	emulated, minimum := dst.EmulationVersion(), dst.MinCompatibilityVersion()
	before := map[string]bool{}
	var unset []featuregate.Feature
	if err := dst.SetEmulationVersionAndMinCompatibilityVersion(src.EmulationVersion(), src.MinCompatibilityVersion()); err != nil {
		return nil, fmt.Errorf("feature gates of this process: %w", err)
	}
	changed := map[string]bool{}
	for f := range src.GetAll() {
		if want := src.Enabled(f); want != dst.Enabled(f) {
			changed[string(f)], before[string(f)] = want, !want
			if !dst.ExplicitlySet(f) {
				unset = append(unset, f)
			}
		}
	}
	undo = func() error {
		if err := dst.SetFromMap(before); err != nil {
			return fmt.Errorf("feature gates of this process: put back: %w", err)
		}
		for _, f := range unset {
			if err := dst.ResetFeatureValueToDefault(f); err != nil {
				return fmt.Errorf("feature gates of this process: put back: %w", err)
			}
		}
		return dst.SetEmulationVersionAndMinCompatibilityVersion(emulated, minimum)
	}
	if err := dst.SetFromMap(changed); err != nil {
		return nil, errors.Join(fmt.Errorf("option FeatureGates: %w", err), undo())
	}
	return undo, nil
}
