package v1alpha1

import (
	"errors"
	"strconv"
)

// SliceMask is a set of parts of a card. In JSON it is a string, "0x" and 1 to 16 hexadecimal digits.
type SliceMask uint64

// String returns the mask as it stands in JSON, in lower case and without leading zeros.
func (m SliceMask) String() string { return "0x" + strconv.FormatUint(uint64(m), 16) }

// MarshalText implements encoding.TextMarshaler.
func (m SliceMask) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *SliceMask) UnmarshalText(text []byte) error {
	parsed, err := ParseSliceMask(string(text))
	if err != nil {
		return err
	}
	*m = parsed
	return nil
}

var errMask = errors.New("must be 0x and 1 to 16 hexadecimal digits")

// ParseSliceMask reads what String writes.
func ParseSliceMask(s string) (SliceMask, error) {
	if len(s) < len("0x0") || len(s) > len("0xffffffffffffffff") || s[:2] != "0x" {
		return 0, errMask
	}
	var v uint64
	for _, c := range []byte(s[2:]) {
		switch {
		case '0' <= c && c <= '9':
			v = v<<4 | uint64(c-'0')
		case 'a' <= c && c <= 'f':
			v = v<<4 | uint64(c-'a'+10)
		case 'A' <= c && c <= 'F':
			v = v<<4 | uint64(c-'A'+10)
		default:
			return 0, errMask
		}
	}
	return SliceMask(v), nil
}
