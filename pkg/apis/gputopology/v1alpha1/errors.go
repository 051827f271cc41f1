package v1alpha1

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// maxValue is the number of characters of a refused value that an error repeats.
const maxValue = 64

// FieldError is a value that was refused.
type FieldError struct {
	// Field is the path of the value, for example "cards[1].vramBytes", or the annotation's key where the value as
	// a whole cannot be read.
	Field string
	// Value is what stood there, cut to 64 characters.
	Value string
	// Reason says what is wrong with it.
	Reason string
}

// Error names the field, the value and the reason.
func (e *FieldError) Error() string {
	return fmt.Sprintf("%s: %.64q: %s", e.Field, e.Value, e.Reason)
}

func refuse(field, value, reason string) *FieldError {
	return &FieldError{Field: field, Value: cut(value), Reason: reason}
}

// VersionError is a value of a version that this package does not read.
type VersionError struct {
	// Key is the annotation.
	Key string
	// Got is the version that stood in the value.
	Got int
}

// Error names the annotation and both versions.
func (e *VersionError) Error() string {
	return fmt.Sprintf("%s: version %d is not read, only %d", e.Key, e.Got, Version)
}

// cut returns the first maxValue characters; the result shares no memory with a long s.
func cut(s string) string {
	if len(s) <= maxValue {
		return s
	}
	n := 0
	for i := range s {
		if n == maxValue {
			return string([]byte(s[:i]))
		}
		n++
	}
	return s
}

// versioned is a value with a version, 0 where it has none.
type versioned interface{ version() int }

// decode reads an annotation of this version into out. Errors are *FieldError or *VersionError.
func decode(key, value string, out versioned) error {
	if len(value) > MaxAnnotationBytes {
		return refuse(key, strconv.Itoa(len(value))+" bytes", "longer than "+strconv.Itoa(MaxAnnotationBytes)+" bytes")
	}
	if !utf8.ValidString(value) {
		return refuse(key, value, "not valid UTF-8")
	}
	err := json.Unmarshal([]byte(value), out)
	// A field of another type than here does not keep the version from being read, and another version may have such
	// fields: then the version is what is wrong.
	v := out.version()
	switch {
	case v != Version && v != 0:
		return &VersionError{Key: key, Got: v}
	case err != nil:
		return jsonError(key, value, err)
	case v == 0:
		return refuse("v", value, "the version is missing or 0")
	}
	return nil
}

// encode is the reverse of decode.
func encode(key string, in any) (string, error) {
	b, err := json.Marshal(in)
	if err != nil {
		return "", fmt.Errorf("%s: %w", key, err)
	}
	if len(b) > MaxAnnotationBytes {
		return "", refuse(key, strconv.Itoa(len(b))+" bytes", "longer than "+strconv.Itoa(MaxAnnotationBytes)+" bytes")
	}
	return string(b), nil
}

func jsonError(key, value string, err error) error {
	var typ *json.UnmarshalTypeError
	if errors.As(err, &typ) {
		field := typ.Field
		if field == "" {
			field = key
		}
		return refuse(field, typ.Value, "must be of type "+typ.Type.String())
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return refuse(key, value, fmt.Sprintf("not JSON at byte %d: %s", syntax.Offset, syntax.Error()))
	}
	return refuse(key, value, err.Error())
}
