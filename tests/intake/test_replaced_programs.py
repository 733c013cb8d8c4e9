"""Commands of a script that may change the files of vLLM or Python, so that the release is not certain."""

from __future__ import annotations

import pytest
from tables import table

from policy.intake.command.launcher import find_server
from policy.intake.command.vllm_command import ServerCommand
from policy.intake.command_line import Installation

FOLDER = "/usr/lib/python3.12/dist-packages"


def installation(script: str) -> Installation | None:
    """The vLLM that runs instead of the image's in the server that a script starts."""
    found = find_server(["bash", "-c", script], {}, is_command=True)
    assert isinstance(found, ServerCommand)
    return found.installation


@table(
    "command",
    [
        *("rm /usr/local/bin/vllm", "rm -f $(which vllm)", 'rm "$(command -v vllm)"', f"rm -rf {FOLDER}/vllm"),
        *("mv /x/vllm /usr/local/bin/vllm", "mv /usr/local/bin/vllm /x", "ln -sf /x/vllm /usr/local/bin/vllm"),
        *("cp /x /opt/venv/bin/vllm", "sudo install -m 755 x /usr/bin/vllm", "dd if=x of=/usr/bin/vllm"),
        *("sed -i s/a/b/ /usr/local/bin/vllm", f"sed -E --in-place s/a/b/ {FOLDER}/vllm/config.py"),
        *(f"patch {FOLDER}/vllm/envs.py a.diff", f"cat x | tee {FOLDER}/vllm/envs.py", "unlink /usr/bin/vllm"),
        *(f"rm -rf {FOLDER}/vllm-0.33.0.dist-info", "apt-get remove -y python3-vllm", "apt-get install -y vllm"),
        *(
            "dpkg -i vllm.deb",
            "dpkg -i ./vllm_0.33.0_amd64.deb",
            "sudo dnf install vllm",
            "apk del vllm",
            "rpm -e vllm",
        ),
    ],
)
@table("joiner", ["; ", " && ", " || true; "])
def test_a_command_that_may_replace_the_program_makes_the_release_uncertain(command: str, joiner: str) -> None:
    found = installation(f"{command}{joiner}vllm serve m")
    assert found is not None
    assert found.version is None
    assert found.cause.endswith("may replace or remove the vLLM of the image before the start")


@table(
    "command",
    [
        *("rm -rf /tmp/x", "rm -rf /root/.cache/vllm", "ln -s /models/vllm /m", "cp /usr/local/bin/vllm /x/y"),
        *("sed s/a/b/ /usr/local/bin/vllm", "sed -i s/a/b/ /etc/vllm.conf", "chmod +x /usr/local/bin/vllm"),
        *("apt-get install -y curl", "apt-get update", "dpkg -l vllm", "dpkg -L vllm", "apt list vllm", "which vllm"),
        *(f"ls {FOLDER}/vllm", f"grep -r x {FOLDER}/vllm", "mv /x/a /x/b", "rm"),
    ],
)
def test_a_command_that_leaves_the_program_does_not(command: str) -> None:
    assert installation(f"{command}; vllm serve m") is None


PACKAGES = "/usr/local/lib/python3.12/dist-packages"
MODULE = "python3 -m vllm.entrypoints.openai.api_server --model m"
FOUND = "$(python3 -c 'import vllm,os;print(os.path.dirname(vllm.__file__))')"
CHANGED = "may replace or remove the vLLM of the image before the start"


@table(
    "script",
    [
        *(f"sed -i s/a/b/ {PACKAGES}/vllm/envs.py; SERVE", f"patch -p1 -d {PACKAGES} < /p/x.patch; SERVE"),
        *(f"cd {PACKAGES} && git apply /p/x && SERVE", f"cd {PACKAGES}; git apply /p/x; cd /; SERVE"),
        *(f"cp /p/envs.py {PACKAGES}/vllm/; SERVE", f"cp /p/envs.py {FOUND}/; SERVE"),
        *(f"D={FOUND}; cp /p/envs.py $D/; SERVE", f"D={FOUND}; F=$D/envs.py; sed -i s/a/b/ $F; SERVE"),
        *(f"mv /p/envs.py {PACKAGES}/vllm/; SERVE", f"ln -sf /p/envs.py {PACKAGES}/vllm/envs.py; SERVE"),
        *(f"install /p/x {PACKAGES}/vllm/envs.py; SERVE", f"rsync -a /p/ {PACKAGES}/; SERVE"),
        *(
            "ln -sf /x/python3 /usr/bin/python3; SERVE",
            "mv /x/p /usr/bin/python3.12; SERVE",
            "rm /usr/bin/python3; SERVE",
        ),
        *("cd /usr/bin; ln -s /x/y python3; SERVE", "cp /x/python3 /opt/venv/bin/; SERVE"),
        "update-alternatives --install /usr/bin/python3 python3 /x/python3 1; SERVE",
        *(f"cp x /usr/lib/{'./' * 600}python3/y; SERVE", f"tar x -C /usr/{'./' * 600}; SERVE"),
        *(f"cd {'x' * 257}; cp x y; SERVE", f"cd /{'x/' * 500}; sed -i s/a/b/ y; SERVE"),
        *(f"cd {'/x' * 99}/lib; cp y python3.12/z; SERVE", f"cd {'/x' * 99}/lib/z; cp y ../python3.12/z; SERVE"),
        *(f"cp -t {PACKAGES} /p/x; SERVE", f"cp --target-directory={PACKAGES} /p/x; SERVE"),
        *(f"dd of={PACKAGES}/vllm/envs.py if=/p/x; SERVE", f"tar -xf /p/x.tar -C {PACKAGES}; SERVE"),
        *(f"unzip /p/x.zip -d {PACKAGES}; SERVE", f"curl -o {PACKAGES}/vllm/envs.py http://x; SERVE"),
        *(f"curl -o{PACKAGES}/x.py http://x; SERVE", f"wget -O {PACKAGES}/vllm/envs.py http://x; SERVE"),
        *(
            f"find {PACKAGES} -name '*.py' -exec sed -i s/a/b/ {{}} +; SERVE",
            f"find {PACKAGES} -name x.py | xargs sed -i s/a/b/; SERVE",
            f"find {PACKAGES} -name x.py | while read f; do sed -i s/a/b/ $f; done; SERVE",
            f"for f in {PACKAGES}/vllm/*.py; do sed -i s/a/b/ $f; done; SERVE",
            f"awk '{{print > \"{PACKAGES}/x.pth\"}}' /p/x; SERVE",
        ),
        *(f"cat /p/x | sudo tee {PACKAGES}/vllm/envs.py; SERVE", f"echo x > {PACKAGES}/sitecustomize.py; SERVE"),
        *(f"echo x > {PACKAGES}/x.pth; SERVE", f"echo x >> {PACKAGES}/vllm/__init__.py; SERVE"),
        *(f"> {PACKAGES}/x.pth; SERVE", f"set -x > {PACKAGES}/x.pth; SERVE", f"A=$(x) > {PACKAGES}/x.pth; SERVE"),
        *("echo x > /usr/local/bin/vllm; SERVE", "cp /p/vllm /usr/local/bin/; SERVE"),
        *("cd /usr/local/bin && curl -O http://x/vllm; SERVE", "cd /usr/local/lib; mv x python3.12/os.py; SERVE"),
        *("cp -r /p/vllm ~/.local/lib/python3.12/site-packages/; SERVE", f"mount --bind /p {PACKAGES}; SERVE"),
        *("dpkg -i /p/x.deb; SERVE", "apt-get install -y ./x.deb; SERVE", "echo x > /etc/ld.so.preload; SERVE"),
        *("cp /data/o.cnf /etc/ssl/openssl.cnf; SERVE", "echo x >> /usr/lib/ssl/openssl.cnf; SERVE"),
        *(f"sh -c 'cp /p/envs.py {PACKAGES}/vllm/'; SERVE", f"export P={PACKAGES}; sh -c 'cp /p/x $P'; SERVE"),
        *(f"X=$(cp /p/x {PACKAGES}/vllm); SERVE", f"echo $(command cp /p/x {PACKAGES}/vllm); SERVE"),
        *(f"echo $(sed -i s/a/b/ {PACKAGES}/vllm/envs.py); SERVE", f"echo `cp /p/x {PACKAGES}`; SERVE"),
        *(f"python3 -c \"open('{PACKAGES}/x.pth', 'w')\"; SERVE", f"cp /p/x {PACKAGES} & SERVE"),
        *(f"while SERVE; do cp /p/x {PACKAGES}; done", f"cp /p/x {PACKAGES}; bash -c 'SERVE'"),
        *("curl -o /tmp/vllm http://x && chmod +x /tmp/vllm; /tmp/SERVE", "wget http://x/vllm; ./SERVE"),
        *("wget http://x/vllm; /proc/self/cwd/SERVE", "cd /x; cp /p/vllm vllm; /proc/self/cwd/SERVE"),
        *("cp /p/vllm /tmp; /tmp/SERVE", f"cp /p/python3 /tmp/; /tmp/{MODULE}", "echo x > /tmp/vllm; /tmp/SERVE"),
        *(f"git clone http://x/vllm /src && cd /src && {MODULE}", f"git clone http://x/vllm.git; cd vllm; {MODULE}"),
        *(f"git clone http://x/y /src; bash -c 'cd /src/y && {MODULE}'", f"mv /p/vllm .; {MODULE}"),
        *(f"cp -r /p/vllm /src/; cd /src; {MODULE}", f"cp /p/envs.py /src/vllm/; cd /src; {MODULE}"),
    ],
)
def test_any_program_that_may_change_a_place_that_the_engine_is_loaded_from_counts(script: str) -> None:
    found = installation(script.replace("SERVE", "vllm serve m"))
    assert found is not None
    assert found.version is None
    assert found.cause.endswith(CHANGED)


@table(
    "script",
    [
        *(
            "tar -C /usr -xf x; SERVE",
            "tar -C / -xf x; SERVE",
            "tar xf x -C /opt/venv; SERVE",
            "tar xzf x -C/usr; SERVE",
        ),
        *("tar --directory=/usr/local -xf x; SERVE", "tar --directory / -xf x; SERVE", "sudo tar -C / -xf x; SERVE"),
        *("timeout 60 tar -C //usr -xf x; SERVE", "busybox tar -C /usr/ -xf x; SERVE", "curl x | tar xz -C /; SERVE"),
        *("cd / && tar xf x && SERVE", "cd /usr; unzip /x.zip; SERVE", "cd /usr/local/lib; tar --extract -f x; SERVE"),
        *("pushd /; cpio -idm < x; SERVE", "cd /; curl x | env tar xz; SERVE", "cd /; 7z x /p/x.7z; SERVE"),
        *("unzip -d /usr/local x; SERVE", "unzip x -d /usr/local/bin; SERVE", "7z x x.7z -o/usr; SERVE"),
        *("cp -r x/. /; SERVE", "cp -a /p/* /usr/; SERVE", "cp -R /p/venv /opt; SERVE", "cp -rT /p /usr/local; SERVE"),
        *("cp -r -t /usr /p/lib; SERVE", "cp -r /p/lib /usr; SERVE", "cp --recursive $X /usr; SERVE"),
        *("rsync x/ /usr/; SERVE", "rsync -a host:/p/ /; SERVE", "rsync -a /p/lib /usr/local; SERVE"),
        *(
            "mv /opt/venv /old; SERVE",
            "mv /p/venv /opt/; SERVE",
            "rm -rf /opt/venv; SERVE",
            "rm -rf /usr/local/*; SERVE",
        ),
        *("ln -sfn /p /opt/venv; SERVE", "mount --bind /p /usr/local; SERVE", "mount -t overlay x /usr; SERVE"),
        *(
            "tar -C ~ -xf x; SERVE",
            "unzip x -d $HOME; SERVE",
            "cp -r /p/. ${HOME}/.local/; SERVE",
            "tar -xf x -C /root; SERVE",
        ),
        *("cp -r /p/.local ~/; SERVE", "tar -xf x -C /etc; SERVE", "cp -r /p/. /etc/python3.12; SERVE"),
        *(
            "tar -xf x -C /root/miniconda3; SERVE",
            "tar -xf x -C /app/.venv; SERVE",
            "git clone x /opt/conda/envs/a; SERVE",
        ),
        *("sh -c 'tar -C / -xf x'; SERVE", "bash -c 'cd / && tar xf x'; SERVE", "D=/usr; tar -C $D -xf x; SERVE"),
        *("python3 -m tarfile -e x /; SERVE", "python3 -m zipfile -e x /usr; SERVE", "aws s3 sync s3://x /opt; SERVE"),
        *(
            "tar -C /tmp/e -xf x; /tmp/e/bin/SERVE",
            "cp -r /p/e /tmp; /tmp/e/bin/SERVE",
            "cd /tmp; tar xf x; e/bin/SERVE",
        ),
        *(f"tar -xf x -C /src; cd /src/y; {MODULE}", f"tar xf x; {MODULE}", f"cd /src; unzip x; {MODULE}"),
        *(f"cp -r /p/. /src; cd /src; {MODULE}", f"rsync -a /p/ .; {MODULE}", f"tar -C ~/x -xf x; cd ~/x; {MODULE}"),
        "echo x > /etc/python3.12/sitecustomize.py; SERVE",
        *(
            "cp /tmp/x /usr/pyvenv.cfg; SERVE",
            "echo home = /x > /usr/local/pyvenv.cfg; SERVE",
            "cd /usr; cp /x pyvenv.cfg; SERVE",
        ),
        "cp /tmp/x /proc/self/root/usr/pyvenv.cfg; SERVE",
        *("ln -s / /r; cp /x /r/usr/local/bin/vllm; SERVE", "ln -s /usr/local/lib/python3.12 /l; cp x /l/a; SERVE"),
        *("cd /x; ln -s /usr/local/bin b; cp vllm b/; SERVE", "ln -s / /r; ln -s /r/usr /u; cp x /u/pyvenv.cfg; SERVE"),
        *("ln -s /usr/local/bin; cp /x bin/vllm; SERVE", "ln -st /x /usr/local/bin; cp /y /x/bin/vllm; SERVE"),
        *(
            "ln -s -t /x /usr/local/bin; cp y /x/bin/vllm; SERVE",
            "mkdir /x; ln -s /usr/local/bin /x; cp y /x/bin/vllm; SERVE",
        ),
        *("ln -s /mnt/x /data; /data/SERVE", "ln -s ../mnt /a/b; /a/b/SERVE", "ln -s /mnt/x /data; cd /data; ./SERVE"),
        *(f"ln -s /mnt /data; cd /data; {MODULE}", "ln -s /d /data; tar -C /data -xf x; /d/SERVE"),
        "ln -s / /r; tar -C /r -xf x; SERVE",
        *(f"git clone x /src; env -C /src {MODULE}", f"git clone x/vllm; env -C vllm A=b {MODULE}"),
        *(f"tar xf x -C /src; env -iC/src {MODULE}", "cp -r /p/e /tmp; cd /; env --chdir=/tmp e/bin/SERVE"),
    ],
)
def test_a_program_that_may_fill_a_folder_above_such_a_place_counts(script: str) -> None:
    found = installation(script.replace("SERVE", "vllm serve m"))
    assert found is not None
    assert found.version is None
    assert found.cause.endswith(CHANGED)


@table(
    "script",
    [
        *("tar -C /tmp -xf x; SERVE", "tar -C /models -xf x; SERVE", "cd /tmp; tar xf x; SERVE", "tar xf x; SERVE"),
        *("cd /; tar -czf /tmp/x.tgz etc; SERVE", "cd /; tar tf x; SERVE", "cd /; git --version; SERVE"),
        *(
            "cp x.so /usr/lib/; SERVE",
            "ln -s /x/a.so /usr/lib/; SERVE",
            "cp -r /models/x /root/; SERVE",
            "cd /; ls; SERVE",
        ),
        *("cp -r /models/x /opt; SERVE", "rsync -a /models/x /root/; SERVE", "mv /x/y /usr/local/bin/; SERVE"),
        *("curl -o /usr/local/bin/x http://x; SERVE", "rm -rf /root/.cache; SERVE", "cp -r /usr /backup; SERVE"),
        *(
            "cp -r /p/x ~/.cache; SERVE",
            "find / -name x; SERVE",
            "chown -R 1000 /opt; SERVE",
            "mkdir -p /opt/venv; SERVE",
        ),
        f"git clone x /src; env -C /other {MODULE}",
        *(
            "ln -s /mnt/x /data; SERVE",
            "ln -s /data /mnt/x; cp y /data/z; SERVE",
            "ln -s /a /b; ln -s /b /a; cp x /a/y; SERVE",
        ),
        *(
            "ln -s /x /y; /yy/SERVE",
            "ln -s; SERVE",
            "ln -st; SERVE",
            "ln -s $A $B; cp x $B/vllm; SERVE",
            "ln -s . x; SERVE",
        ),
        "ln -s /usr/local/bin /b; cp /x /b/y; SERVE",
        *("bash -c 'ls /'; SERVE", f"tar xf x -C /tmp; cd /src; {MODULE}", "tar -C /tmp/e -xf x; /tmp/f/bin/SERVE"),
    ],
)
def test_a_program_that_fills_other_folders_does_not_count(script: str) -> None:
    assert installation(script.replace("SERVE", "vllm serve m")) is None


@table(
    ("command", "program"),
    [
        *((f"cp /x {name}", "cp") for name in ("triton.py", "torch.py", "vllm.py", "logging.py", "/w/triton.py")),
        *((f"cp /x {name}", "cp") for name in ("transformers/__init__.py", "torch.cpython-312-x86_64-linux-gnu.so")),
        *(("cp -r /x triton", "cp"), ("ln -s /x torch", "ln"), ("ln -s /x /w/torch", "ln"), ("mv /x numpy", "mv")),
        *(("wget http://x/triton.py", "wget"), ("wget http://x/vllm.py", "wget"), ("echo x > triton.py", "echo")),
        *(("sed -i s/a/b/ triton.py", "sed"), ("curl -o torch.py http://x", "curl"), ("cp /x/a.py triton.py", "cp")),
    ],
)
@table("place", ["cd /w; {}", "cd /w && {} && true", "{}; cd ."])
def test_a_module_in_the_folder_of_python_m_may_be_imported_by_vllm(command: str, program: str, place: str) -> None:
    if place.endswith("cd .") and "/w/" in command:
        place = "{}; cd /w"
    script = place.format(command)
    assert installation(f"{script}; {MODULE}") == Installation(None, f"`{program}` {CHANGED}")
    assert installation(f"{script}; vllm serve m") is None
    assert installation(f"{script}; cd /other; {MODULE}") is None


@table(
    "command",
    [
        *("cp /x prepare.py", "wget http://x/prepare.py; python3 prepare.py", "cp /x test.py", "cp /x torch.txt"),
        *("rm -f triton.py", "python3 triton.py", "cat triton.py", "mkdir -p torch", "touch torch", "ray stop"),
        *("hf download openai/gpt-oss-20b", "apt-get install -y ninja", "pip install triton.py", "cp triton.py /x"),
        *("git clone https://x/huggingface/transformers", "cp /x torch/README.md", "cp -r /x /w2/torch", "echo torch"),
        *("bash -c 'echo wheel'", "cp -r /x models", "cp /x triton/python/setup.py", "cp /x triton.json"),
    ],
)
def test_files_with_other_names_in_the_folder_of_python_m_do_not_count(command: str) -> None:
    assert installation(f"cd /w; {command}; {MODULE}") is None


def test_a_change_after_an_installation_makes_its_version_the_likely_one() -> None:
    found = installation(f"pip install vllm==0.33.0; sed -i s/a/b/ {PACKAGES}/vllm/envs.py; vllm serve m")
    assert found == Installation(None, f"`sed` {CHANGED}", likely="0.33.0")


@table(
    "script",
    [
        *("cat /etc/ssl/openssl.cnf; SERVE", "cp x.pem /etc/ssl/certs/; SERVE"),
        *(f"cat {PACKAGES}/vllm/version.py; SERVE", f"ls {PACKAGES} > /tmp/x; SERVE", f"test -d {PACKAGES}; SERVE"),
        *(f"grep -r x {PACKAGES} 2>/dev/null; SERVE", f"find {PACKAGES} -name x | head; SERVE"),
        *(f"find {PACKAGES} -name x | xargs -n 1 grep y; SERVE", f"sed -n 1,3p {PACKAGES}/vllm/x; SERVE"),
        *(f"awk '/x/' {PACKAGES}/vllm/version.py; SERVE", f"D={FOUND}; ls $D; grep x $D/envs.py; SERVE"),
        *(f"export LD_LIBRARY_PATH={PACKAGES}/nvidia/nccl/lib:$LD_LIBRARY_PATH; SERVE", f"cd {PACKAGES}; ls; SERVE"),
        *("V=$(python3 -c 'import vllm; print(vllm.__version__)'); echo $V; SERVE", "pip show vllm | grep V; SERVE"),
        *("L=$(pip show vllm | grep Location | cut -d: -f2); ls $L; SERVE", "echo $(command -v vllm); SERVE"),
        *(f"cp {PACKAGES}/vllm/x /tmp/x; SERVE", f"ln -s {PACKAGES}/nvidia/nccl/lib/x.so /usr/lib/x.so; SERVE"),
        *("curl http://x/dist-packages/y -o /tmp/y; SERVE", "wget -O /models/x.pth http://x; SERVE"),
        *("ln -s /usr/bin/python3 /usr/bin/python; SERVE", "cp /usr/bin/python3 /x/y; SERVE"),
        *("timeout 5 /usr/bin/python3 /x/y.py; SERVE", "which /usr/bin/python3; SERVE"),
        *("dpkg -l; SERVE", "chmod +x /tmp/vllm; /tmp/SERVE", f"cd /app && {MODULE}", f"mkdir /app; cd /app; {MODULE}"),
        *(
            f"cd /src; git clone http://x/y; cd -; {MODULE}",
            "cp /tmp/vllm /x; /tmp/SERVE",
            "huggingface-cli download m; SERVE",
        ),
        *(f"VLLM=1 ray start --head; {MODULE}", f"cd {'x' * 256}; cp x y; SERVE", f"cp x {'y' * 2000}; SERVE"),
    ],
)
def test_a_program_that_only_reads_such_a_place_does_not_count(script: str) -> None:
    assert installation(script.replace("SERVE", "vllm serve m")) is None


MODEL = "Qwen/Qwen3-8B"


def doubts(script: str) -> list[str]:
    """Why the server that a script starts may get other arguments or another model."""
    found = find_server(["bash", "-c", script], {}, is_command=True)
    assert isinstance(found, ServerCommand)
    return found.doubts


@table(
    ("command", "program"),
    [
        (f"git clone https://huggingface.co/facebook/opt-125m {MODEL}; SERVE", "git"),
        (f"cp -r /models/opt-125m {MODEL}; SERVE", "cp"),
        (f"ln -s /models/opt-125m ./{MODEL}; SERVE --port 80", "ln"),
        (f"mv /models/opt-125m /w/{MODEL}; cd /w; SERVE", "mv"),
        (f"mv /models/opt-125m /w/{MODEL}; bash -c 'cd /w; SERVE'", "mv"),
        (f"huggingface-cli download facebook/opt-125m --local-dir {MODEL}; SERVE", "huggingface-cli"),
        (f"hf download facebook/opt-125m --local-dir={MODEL}/; vllm serve --model {MODEL}", "hf"),
        (f"tar -xf /x.tar -C {MODEL}; vllm serve --model={MODEL}", "tar"),
        *((f"{each}; SERVE", "tar") for each in (f"A=$(tar -xf /x.tar -C {MODEL})", f"echo `tar -xf x -C {MODEL}`")),
        *((f"SERVE {each}", "cp") for each in (f"--name a$(cp -r /x {MODEL})", f"> $(cp -r /x {MODEL})")),
        *((f"{each}", "cp") for each in (f"env A=$(cp -r /x {MODEL}) SERVE", f"sh -c 'SERVE' \"$(cp -r /x {MODEL})\"")),
        *(
            (f"A=$(cd /y; true); {each}; SERVE", "cp")
            for each in (f"cp -r /x {MODEL}", "D=Qwen; B=$(cp -r /x $D/Qwen3-8B)")
        ),
        *((f"while :; do SERVE; {each}; done", "cp") for each in (f"cp -r /x {MODEL}", f"echo $(cp -r /x {MODEL})")),
        *((f"until SERVE; do {each}; done", "cp") for each in (f"cp -r /x {MODEL}", f"cp -r /x /w/{MODEL}; cd /w")),
        *((f"SERVE & {each}; wait", "cp") for each in (f"cp -r /x {MODEL}", f"A=$(cp -r /x {MODEL})")),
        *((f"SERVE | {each}", "cp") for each in (f"{{ cp -r /x {MODEL}; }}", f"cp -r /x {MODEL}")),
        (f"setsid -f SERVE; cp -r /x {MODEL}", "cp"),
    ],
)
def test_a_folder_with_the_name_of_the_model_may_be_another_model(command: str, program: str) -> None:
    assert doubts(command.replace("SERVE", f"vllm serve {MODEL}")) == [
        f"`{program}` may make the folder `{MODEL}`, and vLLM loads it instead of that model"
    ]


@table(
    "command",
    [
        *(f"huggingface-cli download {MODEL}", f"hf download --token x {MODEL} --local-dir /x", f"ls {MODEL}"),
        *(f"hf download {MODEL} --local-dir {MODEL}", f"git clone https://huggingface.co/{MODEL} {MODEL}"),
        *(f"cp -r /models/{MODEL} {MODEL}", f"cp -r {MODEL} /x", f"rm -rf {MODEL}", f"x --model {MODEL}"),
        *("conda create -n Qwen python=3.10", "conda activate Qwen"),
        *(f"modelscope download --model={MODEL}", f"x --hf-repo={MODEL}", f"cd /x; cp -r /y {MODEL}; cd /z"),
    ],
)
def test_a_command_that_reads_the_model_is_certain(command: str) -> None:
    assert doubts(f"{command}; vllm serve {MODEL} --port 80") == []


MODEL_MADE = "may make the folder `/models/q`, and vLLM loads it instead of that model"
MODEL_CHANGED = "may change the files of the folder `/models/q` before vLLM loads them"


def test_any_model_may_be_changed_by_a_command_that_writes_in_too_many_folders() -> None:
    few, many = (" ".join(f"/n{number}/{'a/' * 480}x" for number in range(count)) for count in (1, 9))
    assert doubts(f"touch {few}; vllm serve /models/q") == []
    assert doubts(f"touch {many}; vllm serve /models/q") == [f"`touch` {MODEL_CHANGED}"]


@table(
    ("command", "doubt"),
    [
        ("sed -i s/Qwen3ForCausalLM/OPTForCausalLM/ /models/q/config.json", f"`sed` {MODEL_CHANGED}"),
        ("cp /cfg/config.json /models/q/config.json", f"`cp` {MODEL_CHANGED}"),
        ("jq .x /cfg/config.json > /models/q/config.json", f"`jq` {MODEL_CHANGED}"),
        ("cat x | tee /models/q/sub/config.json", f"`tee` {MODEL_CHANGED}"),
        ("yq -i .x=1 /models/q/config.json", f"`yq` {MODEL_CHANGED}"),
        ("mv /cfg/config.json /models/q/config.json", f"`mv` {MODEL_CHANGED}"),
        ("envsubst < /cfg/x > /models/q/config.json", f"`envsubst` {MODEL_CHANGED}"),
        ("curl -o /models/q/config.json http://x", f"`curl` {MODEL_CHANGED}"),
        ("rm -f /models/q/modules.json", f"`rm` {MODEL_CHANGED}"),
        ("cd /models/q; sed -i s/a/b/ config.json", f"`sed` {MODEL_CHANGED}"),
        ("cd /models; sed -i s/a/b/ x/../q/config.json", f"`sed` {MODEL_CHANGED}"),
        ("""python3 -c "open('/models/q/config.json', 'w')" """, f"`python3` {MODEL_CHANGED}"),
        ("bash -c 'cp x /models/q/config.json'", f"`bash` {MODEL_CHANGED}"),
        ("""python3 -c "copytree('/x', '/models/q')" """, f"`python3` {MODEL_MADE}"),
        ("gsutil -m cp -r gs://b/q /models", f"`gsutil` {MODEL_MADE}"),
        ("cp -r /src/q /models/", f"`cp` {MODEL_MADE}"),
        ("cp -rT /src /models", f"`cp` {MODEL_MADE}"),
        ("cp -t /models/q x", f"`cp` {MODEL_MADE}"),
        ("ln -s /data /models", f"`ln` {MODEL_MADE}"),
        ("ln -s /models /other; cp x /other/q/config.json", f"`cp` {MODEL_CHANGED}"),
        ("ln -s /models/q /other; cd /other; sed -i s/a/b/ config.json", f"`sed` {MODEL_CHANGED}"),
        ("ln -s /models /other; cp -r /x /other/q", f"`cp` {MODEL_MADE}"),
        ("ln -s q /models/p; jq .x y > /models/p/config.json", f"`jq` {MODEL_CHANGED}"),
        ("rsync -a host:/x/ /models/", f"`rsync` {MODEL_MADE}"),
        ("aws s3 sync s3://b /models", f"`aws` {MODEL_MADE}"),
        ("wget -P/models/q http://x/config.json", f"`wget` {MODEL_MADE}"),
        ("tar -C/models -xf x", f"`tar` {MODEL_MADE}"),
        ("sed -i s/a/b/ /models/*/config.json", f"`sed` {MODEL_MADE}"),
        ("tee /models/*/config.json", f"`tee` {MODEL_MADE}"),
        ("cp x.json /models/*/config.json", f"`cp` {MODEL_MADE}"),
        ("find /models/q -name x | xargs sed -i s/a/b/", f"`sed` {MODEL_MADE}"),
        ("ls /models/q/config.json | xargs -n 1 rm", f"`rm` {MODEL_CHANGED}"),
        ("for f in /models/q/*.json; do sed -i s/a/b/ $f; done", f"`sed` {MODEL_CHANGED}"),
        ("pip freeze > /models/q/config.json", f"`pip` {MODEL_CHANGED}"),
        ("tar -C /models -xf x", f"`tar` {MODEL_MADE}"),
        ("unzip -d /models x.zip", f"`unzip` {MODEL_MADE}"),
        ("cd /models; tar xf x", f"`tar` {MODEL_MADE}"),
        ("cd /; tar -C models -xf x", f"`tar` {MODEL_MADE}"),
        ("cd /models; hf download facebook/opt-125m --local-dir q", f"`hf` {MODEL_MADE}"),
        ("uvx hf download facebook/opt-125m --local-dir /models/q", f"`uvx` {MODEL_MADE}"),
        ("find /models -name x -exec sed -i s/a/b/ {} +", f"`find` {MODEL_MADE}"),
    ],
)
@table(
    "server",
    [
        *("vllm serve /models/q", "vllm serve /models/q/ --port 80", "vllm serve --model=/models/x/../q"),
        *("vllm serve --port 80 --enforce-eager /models/q", "vllm serve a/b --port=80 /models/q"),
        """vllm serve a/b --speculative-config '{"model": "/models/q" }' """,
        *("vllm serve a/b --hf-config-path /models/q", "vllm serve a/b --hf_config_path=/models/q"),
        "python3 -m vllm.entrypoints.openai.api_server --model /models/q",
    ],
)
def test_a_command_that_may_change_the_folder_of_the_model_is_a_doubt(command: str, doubt: str, server: str) -> None:
    named = next(word for word in server.replace("=", " ").replace('"', " ").split() if word.startswith("/"))
    assert doubts(f"{command} && {server}") == [doubt.replace("/models/q", named)]


@table(
    ("script", "env", "expected"),
    [
        *(
            (f"{command}; vllm serve /q", {"HOME": "/q"}, [f"`{program}` may change the files of the folder `/q`"])
            for command, program in (
                ("cp /x ~/config.json", "cp"),
                ("cat /x > ~/config.json", "cat"),
                ("tee ~/config.json", "tee"),
                ("sed -i s/a/b/ ~/config.json", "sed"),
                ("wget -O ~/config.json http://x", "wget"),
                ("cd; cp /x config.json", "cp"),
                ("cd -P; cp /x config.json", "cp"),
                ("cd ~; cp /x config.json", "cp"),
                ("cd ~/a && wget http://x/../config.json -O ../config.json", "wget"),
            )
        ),
        ("cp /x ~/*.json; vllm serve /q", {"HOME": "/q"}, ["`cp` may make the folder `/q`"]),
        ("for f in ~/config.json; do tee $f; done; vllm serve /q", {"HOME": "/q"}, ["`tee` may change the files of"]),
        ("export HOME=/q; cp /x ~/config.json; vllm serve /q", {}, ["`cp` may change the files of the folder `/q`"]),
        ("cp /x /q/a/config.json; vllm serve ~/a", {"HOME": "/q"}, ["`cp` may change the files of the folder `~/a`"]),
        ("cp /x ~/a/config.json; vllm serve ~/a", {"HOME": "/q"}, ["`cp` may change the files of the folder `~/a`"]),
        ("cp /x ~/a/config.json; vllm serve ~/a", {}, ["`cp` may change the files of the folder `~/a`"]),
        ("cd; cp /x a/config.json; vllm serve ~/a", {}, ["`cp` may change the files of the folder `~/a`"]),
        ("cp /x ~/config.json; cd; tee x; vllm serve /q", {"HOME": "/m"}, []),
        ("cp /x ~/config.json; vllm serve /q", {}, []),
        ("cp /x ~/config.json; vllm serve /q", {"HOME": None}, []),
        ("cp /x ~other/config.json; vllm serve /q", {"HOME": "/q"}, []),
        ("cat ~/config.json; cd; ls; vllm serve /q", {"HOME": "/q"}, []),
    ],
)
def test_a_path_in_the_home_of_the_user_may_be_in_the_folder_of_the_model(
    script: str, env: dict[str, str | None], expected: list[str]
) -> None:
    found = find_server(["bash", "-c", script], env, is_command=True)
    assert isinstance(found, ServerCommand)
    about = [each for each in found.doubts if "before vLLM loads them" in each or "vLLM loads it instead" in each]
    assert len(about) == len(expected)
    assert all(each.startswith(start) for each, start in zip(about, expected, strict=True))


def test_the_files_that_a_loop_reads_from_a_pipe_count() -> None:
    script = "find /models/q -name x | while read f; do sed -i s/a/b/ $f; done; vllm serve /models/q"
    assert doubts(script)[0] == f"`sed` {MODEL_MADE}"


@pytest.mark.parametrize(
    ("command", "server", "doubt"),
    [
        ("sed -i s/2/4/ s.yaml", "--config s.yaml", "`sed` may change the file `s.yaml` before vLLM reads it"),
        ("echo x: 1 >> /c/s.yaml", "--config=/c/s.yaml", "`echo` may change the file `/c/s.yaml` before vLLM reads it"),
        ("rm ./s.yaml", "--config s.yaml", "`rm` may change the file `s.yaml` before vLLM reads it"),
        ("cd /c; tar xf x", "--config s.yaml", "`tar` may change the file `s.yaml` before vLLM reads it"),
        ("unzip -d /c x", "--config /c/d/s.yaml", "`unzip` may change the file `/c/d/s.yaml` before vLLM reads it"),
    ],
)
def test_a_command_that_may_change_the_file_of_config_is_a_doubt(command: str, server: str, doubt: str) -> None:
    assert doubts(f"{command}; vllm serve a/b {server}") == [doubt]


@table(
    "command",
    [
        *("cat /models/q/config.json", "ls /models", "mkdir -p /models/q", "chmod -R a+r /models", "cd /models/q; ls"),
        *("cp /models/q/config.json /tmp", "cp /cfg/config.json /models", "cp -r /models/q /x", "tar xf x -C /data"),
        *("pip install -r /models/q/requirements.txt", "tar -czf /x/q.tgz /models/q", "rm -rf /models/x", "git init"),
        *("test -f /models/q/config.json", "grep -q x /models/q/config.json > /tmp/x", "cd /models; touch q2/x; cd /"),
        *("ls /models/q/config.json | xargs cat", "for f in /models/q/*; do cat $f; done", "ls /models/q | wc -l"),
        *("for f in /models/q/*; do echo $f; done; touch x", "rm -f /models/*.tmp"),
        *("A=$(cat /models/q/config.json)", "A=$(ls -d /models/*)"),
        *("A=$(cd /models && pwd); touch q", "A=$(cd /models/q; pwd) && touch x"),
        *("tar xf x; git pull", "cp -r /a/b /models/q2", "sed -n 1p /models/q/config.json", "sed -i s/a/b/ t.yaml"),
    ],
)
@table("server", ["vllm serve /models/q", "vllm serve Qwen/Qwen3-8B --config s.yaml"])
def test_a_command_that_leaves_the_folder_of_the_model_as_it_is_is_certain(command: str, server: str) -> None:
    assert doubts(f"{command}; {server}") == []


@table(
    "script",
    [
        *(
            "A=$(cp x /usr/bin/vllm); SERVE",
            "SERVE --name $(pip install vllm==0.20.0)",
            "SERVE > /tmp/`pip install vllm`",
        ),
        *("env A=$(pip install vllm==0.20.0) SERVE", "bash -c 'SERVE' \"$(cp x.pth /a/lib/python3.12/dist-packages)\""),
        *(
            "while :; do SERVE; cp x /usr/bin/vllm; done",
            "SERVE & cp x /usr/bin/vllm",
            "SERVE | { cp x /usr/bin/vllm; }",
        ),
        *("SERVE | { pip install vllm==0.20.0; }", "setsid -f SERVE; pip install vllm==0.20.0"),
    ],
)
def test_substitutions_loops_and_what_runs_beside_the_server_may_replace_it(script: str) -> None:
    found = installation(script.replace("SERVE", "vllm serve m"))
    assert found is not None
    assert found.version is None


def test_a_client_that_names_the_model_of_a_server_beside_it_does_not_change_it() -> None:
    found = doubts(f"vllm serve {MODEL} & python3 client.py -m {MODEL} --port 80; wait")
    assert [each for each in found if MODEL in each] == []


UNKNOWN_NAMES = [
    *(
        f"echo x > {start}Qwen/Qwen3-8B/config.json"
        for start in ("$PWD/", '"$PWD"/', "$(pwd)/", "`pwd`/", "~+/", "${X}")
    ),
    *("echo x > Qwen$X/Qwen3-8B/config.json", "echo x > $(echo Qwen)/Qwen3-8B/config.json", "echo x > $_/config.json"),
    *("D=$PWD; echo x > $D/Qwen/Qwen3-8B/config.json", "D=$(pwd)/Qwen; echo x > $D/Qwen3-8B/config.json"),
    *("for d in Qwen/*; do echo x > $d/config.json; done", "for d in */*; do echo x > $d/config.json; done"),
    *("echo x > Qwen/Q*/config.json", "cp x */*/config.json", "cp x $PWD/Qwen/Qwen3-8B/config.json"),
    *("echo x | tee $(pwd)/Qwen/Qwen3-8B/config.json", "ln -s x $PWD/Qwen/Qwen3-8B", "ln -s /tmp/z $PWD/Qwen"),
    *("cd Qwen; echo x > $OLDPWD/Qwen/Qwen3-8B/config.json; cd ..", "echo x > $HOME/../$PWD/Qwen/Qwen3-8B/config.json"),
    *("cp x /proc/42/cwd/Qwen/Qwen3-8B/config.json", "cp x /proc/self/cwd/Qwen/Qwen3-8B/config.json"),
    *(f"echo x > /proc/{link}/Qwen/Qwen3-8B/config.json" for link in ("self/cwd", "1/cwd", "1/task/1/cwd")),
    "cd /dev/shm; echo x > /dev/shm/Qwen/Qwen3-8B/config.json",
    *("echo x > Qwen/$F", "echo x > Qwen/Qwen3-8B/$F.json", "echo x > ./Qwen/Qwen3-$N/config.json"),
    *("sed -i s/a/b/ $X/config.json", "cp -r /x $DIR", "ln -sfn /x $DIR/Qwen3-8B"),
]
NAMED_AFTER_SOURCE = [
    *("ln -s /data/Qwen", "ln -s -t . /data/Qwen", "ln -st. /data/Qwen", "cp -r /data/. .", "cp -r /data/* ."),
    *("for d in Qwen; do cp -r /data/$d .; done", "echo Qwen | xargs -I{} cp -r /data/{} .", "mv /data/* ./"),
    *("find /data -exec cp -r {} . \\;", "for d in /data/*; do ln -s $d; done", "ls /data | xargs ln -s -t ."),
    *("rsync -a /data/ .", "cp -r /data/Q* .", "ln -s /data/*", "cp -r -t $PWD /data/Qwen", "ls | xargs cp -rt ."),
]
OUTPUTS = [
    *("sort -o {} x", "sort -uo {} x", "sort --output={} x", "uniq - {}", "sed -n 'w {}' x", "sed 's/a/b/w {}' x"),
    *("xxd -r x {}", "nvidia-smi -q -f {}", "nvidia-smi --filename={}", "pip --log {} list", "pip install --log={} x"),
    *("rsync --log-file={} a b:", "ldconfig -C {}", "tree -o {}", "awk -i inplace 1 {}", "sed -n wQwen/../{} x"),
    *("sed -s --in-place=x s/a/b/ {}", "sed -f x {}", "less -o {} x", "rocm-smi --save {}"),
]


@table("command", [*UNKNOWN_NAMES, *NAMED_AFTER_SOURCE])
def test_a_path_of_which_a_part_is_not_known_may_be_the_folder_of_the_model(command: str) -> None:
    assert len(doubts(f"{command}; vllm serve {MODEL}")) == 1


@table("command", OUTPUTS)
def test_a_program_that_reads_counts_with_what_it_may_write(command: str) -> None:
    assert len(doubts(f"{command.format(f'{MODEL}/config.json')}; vllm serve {MODEL}")) == 1


@table(
    "command",
    [
        *("echo x > /tmp/$X", "echo x > /var/log/$A.log", "echo x > $LOG", "echo x | tee $LOG", "echo x > $D/a.log"),
        *("echo x > ~/.x/$A.json", "cat x > $HOME/.docker/config.json", "curl -o /tmp/$X/config.json http://x"),
        *("cp -r /data/* /models", "cp -r /data/$X /opt/", "ln -s /x/*.so .", "cp x /models/$X/config.json"),
        *("cp x *.json", "cp x Qwen2$X/config.json", "echo x > */config.json", "ray start --address=$HEAD:6379"),
        *("nc -z $HOST $PORT", "kill $PID", "find /data -name '*.so' -exec cp {} . \\;", "cp -r /a $X/b"),
        *("ls | xargs rm", "mkdir -p $DIR", "cp -r /data/. /x", "for d in /x/*; do ln -s $d /usr/lib/; done"),
        *("sort -u Qwen/Qwen3-8B/x", "sort -k2 -t, Qwen/Qwen3-8B/x", "uniq -c Qwen/Qwen3-8B/x", "xxd Qwen/Qwen3-8B/x"),
        *("sed -n '1,3p' Qwen/Qwen3-8B/x", "sed 's/we/wo/g' Qwen/Qwen3-8B/x", "awk -F: '{print $1}' Qwen/Qwen3-8B/x"),
        *("echo x > $X/a.yaml", "echo x > Qwen2/$F", "sed -f x /tmp/y"),
        *(
            "echo x > /proc/1/fd/1",
            "echo x >> /proc/self/fd/2",
            "echo x > /dev/stderr",
            "echo 1 > /proc/self/oom_score_adj",
        ),
        *("sed -E 's|a|w|;s/e/f/g' Qwen/Qwen3-8B/x", "sed -e '/when/d' Qwen/Qwen3-8B/x", "nvidia-smi -L"),
        *("nvidia-smi --query-gpu=name --format=csv", "tail -f Qwen/Qwen3-8B/x", "sort -n -r Qwen/Qwen3-8B/x"),
    ],
)
def test_a_path_that_cannot_be_in_the_folder_of_the_model_is_certain(command: str) -> None:
    assert doubts(f"{command}; vllm serve {MODEL}") == []


def test_a_python_program_is_read() -> None:
    assert not any("may change" in doubt for doubt in doubts(f'python3 "$(pwd)/x.py"; vllm serve {MODEL}'))


def test_any_model_may_be_changed_by_many_paths_of_which_parts_are_not_known() -> None:
    few, many = (" ".join(f"$X/{number}.txt" for number in range(count)) for count in (16, 17))
    assert doubts(f"touch {few}; vllm serve {MODEL}") == []
    assert doubts(f"touch {many}; vllm serve {MODEL}") == [
        f"`touch` may change the files of the folder `{MODEL}` before vLLM loads them"
    ]
    assert len(doubts(f"cp -r /x $D; vllm serve {'a/' * 20}b")) == 1


@table(
    "command",
    [
        *("cp -r /x $PWD/vllm", "echo x > $PWD/vllm/envs.py", "echo x > $(pwd)/vllm/__init__.py", "ln -s /x/vllm"),
        *("cp x */envs.py", "sort -o vllm/envs.py x", "cp -r /x/* .", "sort -o $X/vllm/envs.py x"),
    ],
)
def test_a_path_of_which_a_part_is_not_known_may_be_vllm_s_own(command: str) -> None:
    assert installation(f"{command}; {MODULE}") == Installation(
        None, f"`{command.split(maxsplit=1)[0]}` may replace or remove the vLLM of the image before the start"
    )


def test_a_replacement_after_the_start_does_not_matter() -> None:
    assert installation("vllm serve m; rm /usr/local/bin/vllm") is None
