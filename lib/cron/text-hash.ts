const FNV_OFFSET = 0x811c9dc5;
const FNV_PRIME = 0x01000193;

/** A 32-bit number of a text, the same everywhere (FNV-1a over its UTF-16 units). For spreading, not for secrets. */
export function textHash(text: string): number {
  let hash = FNV_OFFSET;
  for (let index = 0; index < text.length; index++) hash = Math.imul(hash ^ text.charCodeAt(index), FNV_PRIME);
  return mixed(hash);
}

/**
 * Spreads a 32-bit number over all of its bits, so that numbers that are near each other are far apart (the finalizer
 * of MurmurHash3).
 */
export function mixed(value: number): number {
  let hash = value >>> 0;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
