"""Who owns which shard. A coordinator only says who should act; the epochs in Postgres say who may."""
