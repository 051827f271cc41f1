package topology

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWriteMatrix(t *testing.T) {
	hostile := rich(t)
	hostile.Source, hostile.Cards[0].Product = "a\nb", "\x1b[31mred\ttab"
	for name, tc := range map[string]struct {
		spec Spec
		want string
	}{
		"every state": {spec: rich(t), want: `
4 GPUs, source: test; link and GB/s, one direction

      GPU0      GPU1      GPU2       GPU3       mlx5_0  mlx5_1
GPU0  X         NV4 82.4  SYS 27.8   ? 1.0      PIX     SYS
GPU1  NV4 82.4  X         PHB 39.8   PXB 44.2   SYS     PXB
GPU2  SYS 27.8  PHB 39.8  X          NODE 35.0  NODE    ?
GPU3  ? 1.0     PXB 44.2  NODE 35.0  X          ?       ?

      NUMA  Memory     Product                UUID   State
GPU0  0     81920 MiB  NVIDIA H100 80GB HBM3  GPU-0  ok
GPU1  0     81920 MiB  NVIDIA H100 80GB HBM3  GPU-1  unhealthy
GPU2  1     81920 MiB  NVIDIA H100 80GB HBM3  GPU-2  MIG mode, 1 instances
GPU3  1     ?          NVIDIA H100 80GB HBM3  GPU-3  vramBytes is -1
`},
		"nothing known": {spec: Spec{Cards: []Card{{NUMA: NUMAUnknown, Healthy: true}}}, want: `
1 GPUs, source: -; link and GB/s, one direction

      GPU0
GPU0  X

      NUMA  Memory  Product  UUID  State
GPU0  ?     ?       -        -     ok
`},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			if err := newNode(t, tc.spec).WriteMatrix(&b); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.TrimPrefix(tc.want, "\n"), b.String()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	t.Run("hostile text", func(t *testing.T) {
		var b strings.Builder
		if err := newNode(t, hostile).WriteMatrix(&b); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), "\x1b") || !strings.Contains(b.String(), "a?b") || !strings.Contains(b.String(), "?[31mred?tab") {
			t.Errorf("control characters got through:\n%q", b.String())
		}
	})
	t.Run("the writer fails", func(t *testing.T) {
		if err := newNode(t, rich(t)).WriteMatrix(failingWriter{}); !errors.Is(err, errFull) {
			t.Errorf("got %v, want %v", err, errFull)
		}
	})
}

var errFull = errors.New("no space left")

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errFull }
