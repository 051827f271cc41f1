package topology

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// LevelKeys lists the node labels that describe one level.
type LevelKeys struct {
	// Level is LevelHost to LevelRegion. The keys of LevelHost only let a user name that level: every node is a host of
	// its own, whatever its labels say.
	Level Level
	// Keys in order of preference: the first that a node carries with a value counts. They are several labels for one
	// thing: nodes that have one value under different keys of the level share the domain. A key may stand at several
	// levels; it then serves the narrowest of them where the node carries no better key, and no other.
	Keys []LabelKey
}

// LabelKey is the key of a node label, and which part of the value names the domain.
type LabelKey struct {
	// Key is a label key as Kubernetes writes it, with or without a prefix ("example.com/rack").
	Key string
	// Prefix, unless empty, is one character: the name of the domain is the value up to the first such character. With
	// ".", the value ClusterUUID.CliqueID of nvidia.com/gpu.clique names the whole rack instead of its partition.
	Prefix string
}

// maxLevelKeys bounds the keys of a vocabulary; the built-in one has fewer than 50.
const maxLevelKeys = 128

// ValidateLevels checks a vocabulary before NewFabricBuilder gets it. Every level is LevelHost to LevelRegion and
// stands once, with at least one key; keys have the syntax of label keys and do not repeat within a level; a Prefix is
// at most one character; there are at most 128 different keys. Levels may stand in any order. No levels at all are
// valid and mean DefaultLevels. The error is a *SpecError.
func ValidateLevels(levels []LevelKeys) error {
	var seen [levelCount]bool
	distinct := make(map[LabelKey]bool)
	for i, lk := range levels {
		field := fmt.Sprintf("levels[%d]", i)
		switch {
		case int(lk.Level) >= levelCount:
			return &SpecError{Field: field + ".level", Value: lk.Level.String(), Reason: "labels describe host to region"}
		case seen[lk.Level]:
			return &SpecError{Field: field + ".level", Value: lk.Level.String(), Reason: "the level stands twice"}
		case len(lk.Keys) == 0:
			return &SpecError{Field: field + ".keys", Value: "", Reason: "the level has no key"}
		}
		seen[lk.Level] = true
		if err := validateKeys(field, lk.Keys); err != nil {
			return err
		}
		for _, k := range lk.Keys {
			distinct[k] = true
		}
		if len(distinct) > maxLevelKeys {
			reason := fmt.Sprintf("more than %d different keys", maxLevelKeys)
			return &SpecError{Field: field + ".keys", Value: strconv.Itoa(len(distinct)), Reason: reason}
		}
	}
	return nil
}

func validateKeys(field string, keys []LabelKey) error {
	for i, k := range keys {
		at := fmt.Sprintf("%s.keys[%d]", field, i)
		switch {
		case !isLabelKey(k.Key):
			return &SpecError{Field: at + ".key", Value: clip(k.Key), Reason: "not a label key"}
		case !utf8.ValidString(k.Prefix) || utf8.RuneCountInString(k.Prefix) > 1:
			return &SpecError{Field: at + ".prefix", Value: clip(k.Prefix), Reason: "more than one character"}
		case slices.Contains(keys[:i], k):
			return &SpecError{Field: at + ".key", Value: clip(k.Key), Reason: "the key stands twice at this level"}
		}
	}
	return nil
}

// The lengths that Kubernetes allows: a label value and the name in a label key, and the prefix of a label key.
const (
	maxLabelName   = 63
	maxLabelPrefix = 253
)

// isLabelKey reports whether s is a label key: [prefix/]name.
func isLabelKey(s string) bool {
	name := s
	if prefix, rest, ok := strings.Cut(s, "/"); ok {
		if prefix == "" || len(prefix) > maxLabelPrefix || strings.ContainsFunc(prefix, notDNS) {
			return false
		}
		name = rest
	}
	return name != "" && isLabelValue(name) && !notAlnum(rune(name[0])) && !notAlnum(rune(name[len(name)-1]))
}

// isLabelValue reports whether s has the length and the characters of the value of a label. The empty value has.
func isLabelValue(s string) bool {
	return len(s) <= maxLabelName && !strings.ContainsFunc(s, notName)
}

func notDNS(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.'
}

func notAlnum(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
}

func notName(r rune) bool { return notAlnum(r) && r != '-' && r != '_' && r != '.' }

// vocabulary is a list of LevelKeys made ready for reading.
type vocabulary struct {
	// keys holds every different key once; levels lists, for each level, indexes into it in order of preference.
	keys   []LabelKey
	levels [levelCount][]int
}

// newVocabulary takes what is usable of levels: DefaultLevels if there are none; keys of levels that do not exist,
// empty keys and keys beyond the bound are left out.
func newVocabulary(levels []LevelKeys) *vocabulary {
	if len(levels) == 0 {
		levels = DefaultLevels()
	}
	v := &vocabulary{}
	for _, lk := range levels {
		if int(lk.Level) >= levelCount {
			continue
		}
		for _, k := range lk.Keys {
			i := slices.Index(v.keys, k)
			if i < 0 && k.Key != "" && len(v.keys) < maxLevelKeys {
				i = len(v.keys)
				v.keys = append(v.keys, k)
			}
			if i >= 0 {
				v.levels[lk.Level] = append(v.levels[lk.Level], i)
			}
		}
	}
	return v
}

// narrowest returns the narrowest level that lists a key.
func (v *vocabulary) narrowest(key int) Level {
	for l, keys := range v.levels {
		if slices.Contains(keys, key) {
			return Level(l)
		}
	}
	return LevelCluster
}

// keySet is a set of indexes into vocabulary.keys.
type keySet [maxLevelKeys / 64]uint64

func (s *keySet) add(i int)      { s[i/64] |= 1 << (i % 64) }
func (s *keySet) has(i int) bool { return s[i/64]&(1<<(i%64)) != 0 }

func (s *keySet) union(o keySet) {
	for i := range s {
		s[i] |= o[i]
	}
}

// noKey stands for a level without a label.
const noKey = -1

// levelLabels is all that a fabric reads from the labels of a node. Two nodes, or one at two times, compare by ==.
type levelLabels struct {
	// values holds the name of the domain per level, "" where no label says one, and keys which key said it.
	values [levelCount]string
	keys   [levelCount]int16
	// shadowed are the keys that the node carries with a value of their own, but that serve no level because a better
	// key does.
	shadowed keySet
	// badKey is the first key whose value no label can have, and bad that value.
	badKey int16
	bad    string
}

// nilUUID is what NVML reports as the cluster UUID of a GPU that is in no multi-node NVLink fabric.
const nilUUID = "00000000-0000-0000-0000-000000000000"

// name returns the name of the domain that the value of a label gives, "" for none; ok is false if no label can have
// the value.
func (k LabelKey) name(value string) (name string, ok bool) {
	if !isLabelValue(value) {
		return "", false
	}
	if strings.HasPrefix(value, nilUUID) {
		return "", true
	}
	if k.Prefix != "" {
		value, _, _ = strings.Cut(value, k.Prefix)
	}
	return value, true
}

// read finds out what the labels of a node say about each level, from narrow to wide, LevelHost apart.
func (v *vocabulary) read(labels map[string]string) levelLabels {
	out := levelLabels{badKey: noKey}
	var names [maxLevelKeys]string
	for i, k := range v.keys {
		value := labels[k.Key]
		if value == "" {
			continue
		}
		name, ok := k.name(value)
		if !ok && out.badKey == noKey {
			out.badKey, out.bad = int16(i), clip(value)
		}
		names[i] = name
	}
	var served keySet
	for l := range v.levels {
		out.keys[l] = noKey
		if Level(l) == LevelHost {
			continue
		}
		for _, i := range v.levels[l] {
			if names[i] != "" && !served.has(i) {
				served.add(i)
				out.values[l], out.keys[l] = names[i], int16(i)
				break
			}
		}
	}
	for l := int(LevelHost) + 1; l < levelCount; l++ {
		for _, i := range v.levels[l] {
			if names[i] != "" && names[i] != out.values[l] && !served.has(i) {
				out.shadowed.add(i)
			}
		}
	}
	return out
}
