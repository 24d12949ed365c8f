package safetensors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"troupe/modelfile"
)

// remedies advise what to do about the format's unsupported types.
var remedies = map[string]string{
	"F64": convert, "C64": convert,
	"F8_E4M3": quantized, "F8_E5M2": quantized, "F8_E8M0": quantized, "F6_E2M3": quantized, "F6_E3M2": quantized,
	"F4": quantized,
	"I8": quantized, "U8": quantized, "I16": quantized, "U16": quantized, "I32": quantized, "U32": quantized,
	"I64": quantized, "U64": quantized,
	"BOOL": notWeights,
}

const (
	convert    = "save the model as BF16, F16 or F32"
	quantized  = "weights of that type are quantized; use the model's BF16, F16 or F32 version"
	notWeights = "not a type of weights; save the model without the tensor"
)

// typeError reports a tensor of an unsupported type in an intact file.
type typeError struct{ tensor, dtype, remedy string }

func (e *typeError) Error() string {
	return fmt.Sprintf(
		"%s is of type %s; F32, F16 and BF16 are supported: %s",
		modelfile.Named("tensor", e.tensor),
		e.dtype,
		e.remedy,
	)
}

func unsupportedType(tensor, dtype string) error {
	if remedy, known := remedies[dtype]; known {
		return &typeError{tensor, dtype, remedy}
	}
	return errors.New("type is unknown; F32, F16 and BF16 are supported")
}

// dims is a shape. Too many dimensions are rejected before the numbers are read.
type dims []int64

var (
	errDims  = fmt.Errorf("shape has more than %d dimensions", maxDims)
	errShape = errors.New("shape is not a list of integers")
)

func (d *dims) UnmarshalJSON(b []byte) error {
	if bytes.Count(b, []byte{','}) >= maxDims {
		return errDims
	}
	if !bytes.HasPrefix(b, []byte{'['}) || json.Unmarshal(b, (*[]int64)(d)) != nil {
		return errShape
	}
	return nil
}
