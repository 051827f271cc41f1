package v1alpha1

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// MaxLayoutBytes bounds the annotation LayoutAnnotation: what an object may carry in annotations is shared by all who write
// some, and every watcher of PodGroups gets all of it.
const MaxLayoutBytes = 32 << 10

// Layout is the value of LayoutAnnotation: where the members of a gang are. Domains stand in the order of the fabric, so that
// neighbours in the list are neighbours in the network. Fields may be added within a version.
type Layout struct {
	// Version is the constant Version.
	Version int `json:"v"`
	// Domains are the domains that hold members.
	Domains []LayoutDomain `json:"domains"`
	// Summary says that the nodes were left out to keep within MaxLayoutBytes.
	Summary bool `json:"summary,omitempty"`
}

// LayoutDomain is one domain of the fabric with members in it.
type LayoutDomain struct {
	// Level and Name say which; Level is "cluster" where no label describes a fabric.
	Level string `json:"level"`
	Name  string `json:"name,omitempty"`
	// Within are the wider domains around it, narrow to wide, as "level name".
	Within []string `json:"within,omitempty"`
	// Members is the number of members in the domain, Ranks their ranks as ranges: "0-15,17".
	Members int    `json:"members"`
	Ranks   string `json:"ranks,omitempty"`
	// Nodes are the nodes, left out in a summary.
	Nodes []LayoutNode `json:"nodes,omitempty"`
}

// LayoutNode is one node with members on it.
type LayoutNode struct {
	Name    string `json:"name"`
	Members int    `json:"members"`
	Ranks   string `json:"ranks,omitempty"`
}

// Format returns the layout as the annotation holds it. The error names the size if it is beyond MaxLayoutBytes.
func (l *Layout) Format() (string, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(l); err != nil {
		return "", err
	}
	text := bytes.TrimRight(out.Bytes(), "\n")
	if len(text) > MaxLayoutBytes {
		return "", fmt.Errorf("layout of %d bytes, at most %d may be written", len(text), MaxLayoutBytes)
	}
	return string(text), nil
}

func (l *Layout) version() int { return l.Version }

// ParseLayout reads an annotation. Unknown fields are ignored. Errors are *VersionError or *FieldError.
func ParseLayout(value string) (*Layout, error) {
	l := &Layout{}
	if err := decode(LayoutAnnotation, value, l); err != nil {
		return nil, err
	}
	return l, nil
}
