// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reservation plans subnet CIDR reservations: which blocks a SubnetReservation reserves in a subnet, which
// reservations EC2 lacks, and which are no longer declared.
//
// EC2 has no client token for a reservation. Its identity is the block, the type and the tags of [Owner]. The
// controller records a block before it requests the reservation, and a recorded block does not move. A repeated request
// after a crash is therefore for the same block, and EC2 refuses it as an overlap. A reservation without these tags is
// used if it is the declared block, and never deleted.
package reservation
