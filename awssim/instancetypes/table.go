// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package instancetypes

import "github.com/aws/amazon-vpc-resource-controller-k8s/pkg/aws/vpc"

// facts is what AWS's Go table leaves out about a type.
type facts struct {
	vcpus       int    // left out where the family has a rule, see families.go
	memory      int    // MiB
	efas        int    // the most Elastic Fabric Adapters; 0 = no EFA
	enaExpress  bool   // ENA Express (EnaSrdSupported)
	performance string // bandwidth per network card, in EC2's words
}

const gib = 1024 // MiB

const (
	upTo5    = "Up to 5 Gigabit"
	upTo10   = "Up to 10 Gigabit"
	upTo12_5 = "Up to 12.5 Gigabit"
	upTo25   = "Up to 25 Gigabit"
	gbit10   = "10 Gigabit"
	gbit25   = "25 Gigabit"
	gbit50   = "50 Gigabit"
	gbit100  = "100 Gigabit"
	gbit200  = "200 Gigabit"
	gbit400  = "400 Gigabit"
)

// known holds a row per type that people run Kubernetes nodes on, small to large.
// Figures: EC2 instance types guide (specification and network tables) and EC2 user guide (EFA, ENA Express).
var known = map[string]facts{
	// Burstable: the size says nothing about the vCPUs.
	"t2.nano":     {vcpus: 1, memory: gib / 2},
	"t2.micro":    {vcpus: 1, memory: 1 * gib},
	"t2.small":    {vcpus: 1, memory: 2 * gib},
	"t2.medium":   {vcpus: 2, memory: 4 * gib},
	"t2.large":    {vcpus: 2, memory: 8 * gib},
	"t2.xlarge":   {vcpus: 4, memory: 16 * gib},
	"t2.2xlarge":  {vcpus: 8, memory: 32 * gib},
	"t3.nano":     {vcpus: 2, memory: gib / 2, performance: upTo5},
	"t3.micro":    {vcpus: 2, memory: 1 * gib, performance: upTo5},
	"t3.small":    {vcpus: 2, memory: 2 * gib, performance: upTo5},
	"t3.medium":   {vcpus: 2, memory: 4 * gib, performance: upTo5},
	"t3.large":    {vcpus: 2, memory: 8 * gib, performance: upTo5},
	"t3.xlarge":   {vcpus: 4, memory: 16 * gib, performance: upTo5},
	"t3.2xlarge":  {vcpus: 8, memory: 32 * gib, performance: upTo5},
	"t3a.nano":    {vcpus: 2, memory: gib / 2, performance: upTo5},
	"t3a.micro":   {vcpus: 2, memory: 1 * gib, performance: upTo5},
	"t3a.small":   {vcpus: 2, memory: 2 * gib, performance: upTo5},
	"t3a.medium":  {vcpus: 2, memory: 4 * gib, performance: upTo5},
	"t3a.large":   {vcpus: 2, memory: 8 * gib, performance: upTo5},
	"t3a.xlarge":  {vcpus: 4, memory: 16 * gib, performance: upTo5},
	"t3a.2xlarge": {vcpus: 8, memory: 32 * gib, performance: upTo5},
	"t4g.nano":    {vcpus: 2, memory: gib / 2, performance: upTo5},
	"t4g.micro":   {vcpus: 2, memory: 1 * gib, performance: upTo5},
	"t4g.small":   {vcpus: 2, memory: 2 * gib, performance: upTo5},
	"t4g.medium":  {vcpus: 2, memory: 4 * gib, performance: upTo5},
	"t4g.large":   {vcpus: 2, memory: 8 * gib, performance: upTo5},
	"t4g.xlarge":  {vcpus: 4, memory: 16 * gib, performance: upTo5},
	"t4g.2xlarge": {vcpus: 8, memory: 32 * gib, performance: upTo5},

	// General purpose.
	"m5.large":       {performance: upTo10},
	"m5.xlarge":      {performance: upTo10},
	"m5.2xlarge":     {performance: upTo10},
	"m5.4xlarge":     {performance: upTo10},
	"m5.8xlarge":     {performance: gbit10},
	"m5.12xlarge":    {performance: "12 Gigabit"},
	"m5.16xlarge":    {performance: "20 Gigabit"},
	"m5.24xlarge":    {performance: gbit25},
	"m5.metal":       {vcpus: 96, memory: 384 * gib, performance: gbit25},
	"m5n.24xlarge":   {efas: 1, performance: gbit100},
	"m5dn.24xlarge":  {efas: 1, performance: gbit100},
	"m6a.large":      {performance: upTo12_5},
	"m6a.xlarge":     {performance: upTo12_5},
	"m6a.48xlarge":   {efas: 1, enaExpress: true, performance: gbit50},
	"m6i.large":      {performance: upTo12_5},
	"m6i.xlarge":     {performance: upTo12_5},
	"m6i.32xlarge":   {efas: 1, enaExpress: true, performance: gbit50},
	"m6in.32xlarge":  {efas: 2, enaExpress: true, performance: gbit100},
	"m6idn.32xlarge": {efas: 2, enaExpress: true, performance: gbit100},
	"m7g.16xlarge":   {efas: 1, enaExpress: true, performance: "30 Gigabit"},
	"m7i.large":      {performance: upTo12_5},
	"m7i.xlarge":     {performance: upTo12_5},
	"m7i.24xlarge":   {enaExpress: true, performance: "37.5 Gigabit"},
	"m7i.48xlarge":   {efas: 1, enaExpress: true, performance: gbit50},
	"m8g.large":      {performance: upTo12_5},
	"m8g.xlarge":     {performance: upTo12_5},
	"m8g.48xlarge":   {efas: 1, enaExpress: true, performance: gbit50},
	"m8i.large":      {performance: upTo12_5},
	"m8i.96xlarge":   {efas: 1, enaExpress: true, performance: gbit100},

	// Compute optimized. C5n has 2.625 GiB per vCPU up to 4xlarge and then more, so that it has no rule.
	"c5.large":      {performance: upTo10},
	"c5.xlarge":     {performance: upTo10},
	"c5.9xlarge":    {performance: "12 Gigabit"},
	"c5.18xlarge":   {performance: gbit25},
	"c5.24xlarge":   {performance: gbit25},
	"c5.metal":      {vcpus: 96, memory: 192 * gib, performance: gbit25},
	"c5n.large":     {vcpus: 2, memory: 5.25 * gib, performance: upTo25},
	"c5n.xlarge":    {vcpus: 4, memory: 10.5 * gib, performance: upTo25},
	"c5n.2xlarge":   {vcpus: 8, memory: 21 * gib, performance: upTo25},
	"c5n.4xlarge":   {vcpus: 16, memory: 42 * gib, performance: upTo25},
	"c5n.9xlarge":   {vcpus: 36, memory: 96 * gib, efas: 1, performance: gbit50},
	"c5n.18xlarge":  {vcpus: 72, memory: 192 * gib, efas: 1, performance: gbit100},
	"c5n.metal":     {vcpus: 72, memory: 192 * gib, efas: 1, performance: gbit100},
	"c6a.48xlarge":  {efas: 1, enaExpress: true, performance: gbit50},
	"c6gn.16xlarge": {efas: 1, enaExpress: true, performance: gbit100},
	"c6i.32xlarge":  {efas: 1, enaExpress: true, performance: gbit50},
	"c6in.32xlarge": {efas: 2, enaExpress: true, performance: gbit100},
	"c7gn.16xlarge": {efas: 1, enaExpress: true, performance: gbit200},
	"c7i.48xlarge":  {efas: 1, enaExpress: true, performance: gbit50},
	"c8gn.48xlarge": {efas: 2, enaExpress: true},

	// Memory and storage optimized.
	"r5.large":      {performance: upTo10},
	"r5.xlarge":     {performance: upTo10},
	"r5n.24xlarge":  {efas: 1, performance: gbit100},
	"r5dn.24xlarge": {efas: 1, performance: gbit100},
	"r6i.32xlarge":  {efas: 1, enaExpress: true, performance: gbit50},
	"r6in.32xlarge": {efas: 2, enaExpress: true, performance: gbit100},
	"i3en.24xlarge": {efas: 1, performance: gbit100},
	"i4i.32xlarge":  {efas: 1, enaExpress: true, performance: "75 Gigabit"},

	// Accelerated. Their efas follow the cards, except that P6-B300 keeps card 0 for ENA.
	"g4dn.8xlarge":     {efas: 1, performance: gbit50},
	"g4dn.12xlarge":    {efas: 1, performance: gbit50},
	"g4dn.16xlarge":    {efas: 1, performance: gbit50},
	"g4dn.metal":       {vcpus: 96, memory: 384 * gib, efas: 1, performance: gbit100},
	"g5.8xlarge":       {efas: 1, performance: gbit25},
	"g5.12xlarge":      {efas: 1, performance: "40 Gigabit"},
	"g5.16xlarge":      {efas: 1, performance: gbit25},
	"g5.24xlarge":      {efas: 1, performance: gbit50},
	"g5.48xlarge":      {efas: 1, performance: gbit100},
	"g6.8xlarge":       {efas: 1, performance: gbit25},
	"g6.48xlarge":      {efas: 1, performance: gbit100},
	"g6e.24xlarge":     {efas: 2, performance: gbit100},
	"g6e.48xlarge":     {efas: 4, performance: gbit100},
	"inf1.24xlarge":    {efas: 1, performance: gbit100},
	"p3.2xlarge":       {vcpus: 8, memory: 61 * gib, performance: upTo10},
	"p3.8xlarge":       {vcpus: 32, memory: 244 * gib, performance: gbit10},
	"p3.16xlarge":      {vcpus: 64, memory: 488 * gib, performance: gbit25},
	"p3dn.24xlarge":    {vcpus: 96, memory: 768 * gib, efas: 1, performance: gbit100},
	"p4d.24xlarge":     {vcpus: 96, memory: 1152 * gib, efas: 4, performance: gbit100},
	"p4de.24xlarge":    {vcpus: 96, memory: 1152 * gib, efas: 4, performance: gbit100},
	"p5.4xlarge":       {vcpus: 16, memory: 256 * gib, efas: 1, performance: gbit100},
	"p5.48xlarge":      {vcpus: 192, memory: 2048 * gib, efas: 32, performance: gbit100},
	"p5e.48xlarge":     {vcpus: 192, memory: 2048 * gib, efas: 32, performance: gbit100},
	"p5en.48xlarge":    {vcpus: 192, memory: 2048 * gib, efas: 16, performance: gbit200},
	"p6-b200.48xlarge": {vcpus: 192, memory: 2048 * gib, efas: 8, performance: gbit400},
	"p6-b300.48xlarge": {vcpus: 192, memory: 4096 * gib, efas: 16},
	"dl1.24xlarge":     {vcpus: 96, memory: 768 * gib, efas: 4, performance: gbit100},
	"trn1.2xlarge":     {vcpus: 8, memory: 32 * gib},
	"trn1.32xlarge":    {vcpus: 128, memory: 512 * gib, efas: 8, performance: gbit100},
	"trn1n.32xlarge":   {vcpus: 128, memory: 512 * gib, efas: 16, performance: gbit100},
	"trn2.48xlarge":    {vcpus: 192, memory: 2048 * gib, efas: 16, performance: gbit200},

	// High performance computing: the smaller sizes have fewer vCPUs, not less memory.
	"hpc6a.48xlarge":  {vcpus: 96, memory: 384 * gib, efas: 1, performance: gbit100},
	"hpc6id.32xlarge": {vcpus: 64, memory: 1024 * gib, efas: 2, performance: gbit100},
	"hpc7a.12xlarge":  {vcpus: 24, memory: 768 * gib, efas: 2},
	"hpc7a.24xlarge":  {vcpus: 48, memory: 768 * gib, efas: 2},
	"hpc7a.48xlarge":  {vcpus: 96, memory: 768 * gib, efas: 2},
	"hpc7a.96xlarge":  {vcpus: 192, memory: 768 * gib, efas: 2},
	"hpc7g.4xlarge":   {vcpus: 16, memory: 128 * gib, efas: 1, performance: gbit200},
	"hpc7g.8xlarge":   {vcpus: 32, memory: 128 * gib, efas: 1, performance: gbit200},
	"hpc7g.16xlarge":  {vcpus: 64, memory: 128 * gib, efas: 1, performance: gbit200},
}

// lacking holds the types that AWS's Go table leaves out: it lists what can run branch interfaces under EKS,
// and EC2 has more. Figures: EC2 instance types guide, and the wider table of the VPC CNI, whose totals
// count card 0 only and are summed over the cards here, as DescribeInstanceTypes does.
var lacking = map[string]vpc.VPCLimits{
	"hpc6a.48xlarge":  nitro(1, 2),
	"hpc6id.32xlarge": nitro(2, 1),
	"hpc7a.12xlarge":  nitro(2, 2),
	"hpc7a.24xlarge":  nitro(2, 2),
	"hpc7a.48xlarge":  nitro(2, 2),
	"hpc7a.96xlarge":  nitro(2, 2),
	"trn2.48xlarge":   nitro(16, 2),
}

// nitro is a type of which every interface takes 50 IPv4 addresses, as those of the largest sizes do.
func nitro(cards, perCard int) vpc.VPCLimits {
	limits := vpc.VPCLimits{
		Interface:        cards * perCard,
		IPv4PerInterface: 50,
		Hypervisor:       "nitro",
	}
	for index := range cards {
		limits.NetworkCards = append(limits.NetworkCards, vpc.NetworkCard{
			MaximumNetworkInterfaces: int64(perCard),
			NetworkCardIndex:         int64(index),
		})
	}
	return limits
}
