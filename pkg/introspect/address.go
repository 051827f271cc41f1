package introspect

import (
	"fmt"
	"net"
	"strconv"
	"unicode/utf8"
)

// DefaultAddress is where the endpoint listens unless it is told otherwise: this machine alone can reach it.
const DefaultAddress Address = "127.0.0.1:10269"

// Address is a "host:port" to listen on; "" turns the endpoint off. It implements the Value interface of the flag packages,
// so that a value that cannot be listened on is refused where flags are parsed.
type Address string

// String returns the address.
func (a *Address) String() string {
	if a == nil {
		return ""
	}
	return string(*a)
}

// Type is what a usage message shows in the place of the value.
func (*Address) Type() string { return "ip:port" }

// Set takes "host:port", or "" or "0" for off. host is an IP address, "localhost", or empty for all addresses; port is 0 to
// 65535, where 0 is any port that is free. The error names the part at fault.
func (a *Address) Set(value string) error {
	if value == "" || value == "0" {
		*a = ""
		return nil
	}
	host, port, err := net.SplitHostPort(value)
	if err != nil {
		return fmt.Errorf(`address %q: want "ip:port", or "" or "0" for none`, short(value))
	}
	if host != "" && host != "localhost" && net.ParseIP(host) == nil {
		return fmt.Errorf(`address %q: host %q is no IP address and not "localhost"`, short(value), short(host))
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("address %q: port %q is not a number from 0 to 65535", short(value), short(port))
	}
	*a = Address(value)
	return nil
}

// Loopback reports whether only this machine can reach the address.
func (a Address) Loopback() bool {
	host, _, err := net.SplitHostPort(string(a))
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// maxQuoted is how much of a bad value an error repeats, in bytes.
const maxQuoted = 64

func short(value string) string {
	if len(value) <= maxQuoted {
		return value
	}
	end := maxQuoted
	for end > 0 && !utf8.RuneStart(value[end]) {
		end--
	}
	return value[:end] + "..."
}
