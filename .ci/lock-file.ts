/** What is read of package-lock.json. */
export interface LockFile {
  lockfileVersion?: number;
  packages?: Record<string, LockedPackage>;
}

export interface LockedPackage {
  version?: string;
  resolved?: string;
  integrity?: string;
  link?: boolean;
  hasInstallScript?: boolean;
  dependencies?: Record<string, string>;
  devDependencies?: Record<string, string>;
  optionalDependencies?: Record<string, string>;
}

export interface Manifest {
  /** Packages with install scripts: whether they run. */
  allowScripts?: Record<string, boolean>;
}

/**
 * Packages whose install script runs, each with what it does. That of `node` asks npm for the build of this machine
 * in the same version: a package of the registry, though none of the lock file.
 */
const reviewed = new Set(['node']);

/** Settings of `.npmrc` without which the above would not hold, each with what it keeps away. */
const settings: Record<string, string> = {
  'strict-allow-scripts=true': 'a package with an install script that nobody has looked at',
  'onnxruntime-node-install=skip': 'a download of GPU libraries by npm versions that run every script',
  'omit-lockfile-registry-resolved=true': 'hosts in the lock file, which the name of a package does not need',
};

const integrityPattern = /^sha512-[A-Za-z0-9+/]{86}==$/;
/** A version, a range of versions, a tag, or another name for one of these; a path or an address is none. */
const rangePattern = /^(npm:(@[\w.-]+\/)?[\w.-]+@)?[\w\s.*|<>=~^+-]+$/;

/** What is wrong with how packages are installed: where they come from, and which of them run something. */
export function lockFaults(lock: LockFile, manifest: Manifest, npmrc: string): string[] {
  const packages = Object.entries(lock.packages ?? {});
  const allowed = manifest.allowScripts ?? {};
  const lines = npmrc.split('\n').map((line) => line.trim());
  return [
    ...(lock.lockfileVersion === 3 && packages.length > 1
      ? []
      : ['package-lock.json is not one of version 3']),
    ...packages.flatMap(([path, locked]) => [
      ...sourceFaults(path, locked),
      ...(path === '' ? [] : originFaults(path, locked)),
      ...scriptFaults(path, locked, allowed),
    ]),
    ...Object.keys(allowed)
      .filter((name) => allowed[name] && !reviewed.has(name))
      .map(
        (name) => `${name}: its install script is allowed, and .ci/lock-file.ts does not say what it does`,
      ),
    ...Object.entries(settings)
      .filter(([setting]) => !lines.includes(setting))
      .map(([setting, against]) => `.npmrc lacks ${setting}, which is against ${against}`),
  ];
}

function originFaults(path: string, { link, resolved, integrity, version }: LockedPackage): string[] {
  return [
    ...(link ? [`${path}: is a link, and not a package of the registry`] : []),
    ...(resolved === undefined ? [] : [`${path}: comes from ${resolved}, and not by its name and version`]),
    ...(version === undefined ? [`${path}: has no version`] : []),
    ...(integrityPattern.test(integrity ?? '') ? [] : [`${path}: has no SHA-512 to hold what comes against`]),
  ];
}

function sourceFaults(path: string, locked: LockedPackage): string[] {
  const asked = { ...locked.dependencies, ...locked.devDependencies, ...locked.optionalDependencies };
  return Object.entries(asked)
    .filter(([, range]) => !rangePattern.test(range))
    .map(
      ([name, range]) => `${path || 'package.json'}: asks for ${name} from ${range}, and not by its version`,
    );
}

function scriptFaults(path: string, locked: LockedPackage, allowed: Record<string, boolean>): string[] {
  const name = path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);
  if (path === '' || !locked.hasInstallScript || Object.hasOwn(allowed, name)) return [];
  return [`${path}: has an install script; allow or deny it in the allowScripts of package.json`];
}
