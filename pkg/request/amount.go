package request

import (
	"fmt"
	"math/big"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

const (
	// mib is one MiB in bytes.
	mib = int64(1) << 20
	// maxScale bounds the decimal exponent of a quantity: a larger one is beyond 64 bits, or far below one unit, and
	// expanding it could take any amount of memory.
	maxScale = 40
	// maxBits bounds the digits of a quantity, for the same reason.
	maxBits = 256
	// maxDecimal is the number of characters of a decimal.
	maxDecimal = 64
)

// units returns a quantity in whole units, rounded up, and whether it was whole; or what is wrong with it.
func units(q resource.Quantity) (n int64, exact bool, reason string) {
	switch q.Sign() {
	case 0:
		return 0, true, ""
	case -1:
		return 0, false, "must not be negative"
	}
	if n, ok := q.AsInt64(); ok {
		return n, true, ""
	}
	unscaled, scale := decimalParts(q)
	if !expandable(unscaled, scale) {
		return 0, false, "is out of range"
	}
	up, exact := ceil(rat(unscaled, scale))
	if !up.IsInt64() {
		return 0, false, "does not fit into 64 bits"
	}
	return up.Int64(), exact, ""
}

// decimalParts returns a quantity as unscaled / 10^scale, not to be changed. q is a copy: AsDec changes what it is
// called on.
func decimalParts(q resource.Quantity) (unscaled *big.Int, scale int64) {
	d := q.AsDec()
	return d.UnscaledBig(), int64(d.Scale())
}

// expandable reports whether a decimal can be written out.
func expandable(unscaled *big.Int, scale int64) bool {
	return scale >= -maxScale && scale <= maxScale && unscaled.BitLen() <= maxBits
}

// quantityText is the quantity for an error message. It never expands a large exponent.
func quantityText(q resource.Quantity) string {
	unscaled, scale := decimalParts(q)
	switch {
	case expandable(unscaled, scale):
		return q.String()
	case unscaled.BitLen() <= maxBits:
		return fmt.Sprintf("%se%d", unscaled, -scale)
	}
	return fmt.Sprintf("a number of %d bits", unscaled.BitLen())
}

// rat returns unscaled / 10^scale.
func rat(unscaled *big.Int, scale int64) *big.Rat {
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(max(scale, -scale)), nil)
	if scale >= 0 {
		return new(big.Rat).SetFrac(unscaled, power)
	}
	return new(big.Rat).SetInt(power.Mul(power, unscaled))
}

// ceil rounds a non-negative number up to a whole one and reports whether it was whole.
func ceil(r *big.Rat) (*big.Int, bool) {
	if r.IsInt() {
		return new(big.Int).Set(r.Num()), true
	}
	up := new(big.Int).Quo(r.Num(), r.Denom())
	return up.Add(up, big.NewInt(1)), false
}

// parseDecimal reads a plain decimal, "12" or "0.5", exactly; or says what is wrong with it. Signs, exponents, blanks,
// separators, suffixes, hexadecimal and the names of numbers that are none are refused.
func parseDecimal(s string) (r *big.Rat, reason string) {
	if len(s) > maxDecimal {
		return nil, fmt.Sprintf("is longer than %d characters", maxDecimal)
	}
	if strings.HasPrefix(s, "-") {
		return nil, "must not be negative"
	}
	digits, dots := 0, 0
	for _, c := range []byte(s) {
		switch {
		case '0' <= c && c <= '9':
			digits++
		case c == '.':
			dots++
		default:
			return nil, "is not a plain decimal number"
		}
	}
	r, ok := new(big.Rat).SetString(s)
	if digits == 0 || dots > 1 || !ok {
		return nil, "is not a plain decimal number"
	}
	return r, ""
}

// bytesOf turns bytes into claimable memory: whole MiB, rounded up.
func bytesOf(n int64) (vram int64, reason string) {
	if n > topology.MaxVRAMBytes {
		return 0, tooMuchMemory
	}
	return (n + mib - 1) / mib * mib, ""
}

// mebibytes turns MiB into bytes.
func mebibytes(n int64) (vram int64, reason string) {
	if n > topology.MaxVRAMBytes/mib {
		return 0, tooMuchMemory
	}
	return n * mib, ""
}

const tooMuchMemory = "is more memory than any card has (16 TiB)"
