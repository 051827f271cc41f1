package record

import (
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// CheckNode returns a *DialectError if cards of the node cannot be named in one of the dialects: HAMi's and Volcano's
// agents know cards by UUID and hand out memory in MiB, so every usable card needs both. With no dialects it costs nothing.
func CheckNode(t *topology.Node, nodeName string, names []string) error {
	for _, name := range names {
		d, err := find(name)
		if err != nil {
			return err
		}
		if !d.byUUID {
			continue
		}
		w := writing{dialect: d, node: nodeName}
		for i := range t.Usable().All() {
			c := t.Card(i)
			if err := w.expressible(i, c.UUID, c.VRAMBytes); err != nil {
				return err
			}
		}
	}
	return nil
}
