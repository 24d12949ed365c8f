package utilization

// The peaks of GPUs, by the name that the driver gives them: dense BF16 or FP16 arithmetic on tensor cores, and the
// bandwidth of device memory. NVIDIA's datasheets give the arithmetic with sparsity, which is twice as fast. These
// rates were not measured here.
//
// An engine with 16-bit weights splits its F32 activations into two 16-bit parts (ADR 009), which doubles the products,
// so its roofline share in a prefill cannot exceed one half. A model with F32 matrices does not use tensor cores.
var facts = map[string]Peaks{
	"NVIDIA H100 80GB HBM3": {989e12, 3.35e12, "NVIDIA H100 datasheet (SXM)"},
	"NVIDIA H100 PCIe":      {756e12, 2.0e12, "NVIDIA H100 datasheet (PCIe)"},
	"NVIDIA H100 NVL":       {835e12, 3.9e12, "NVIDIA H100 datasheet (NVL)"},
	"NVIDIA H200":           {989e12, 4.8e12, "NVIDIA H200 datasheet (SXM)"},
	"NVIDIA H200 NVL":       {835e12, 4.8e12, "NVIDIA H200 datasheet (NVL)"},
}

// FactsOf returns the peaks of a GPU by its product name, from its datasheet. They are unknown for other products.
func FactsOf(product string) Peaks { return facts[product] }
