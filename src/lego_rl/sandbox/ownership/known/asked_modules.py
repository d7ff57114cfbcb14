"""Modules that Python's library asks for and the Python of this list does not have; generated, do not edit.

Written by ``python -m scripts.asked_modules`` from the libraries of Python 3.6, 3.7, 3.8, 3.9, 3.10, 3.11, 3.12, 3.13,
and what newer ones add. A module of such a name on the module path is run by the library itself: ``platform`` tries
``import _wmi`` everywhere, ``copy`` once tried ``from org.python.core import PyStringMap``. A name may be that of
something in a module.
"""

ASKED_FOR = frozenset({
    "Carbon.File", "Mailman", "Mailman.MailList", "Mailman.Message", "Mailman.Utils", "_apple_support",
    "_ast_unparse", "_bootlocale", "_bootsubprocess", "_colorize", "_colorize.ANSIColors", "_colorize.can_colorize",
    "_dummy_thread", "_dummy_thread.allocate_lock", "_dummy_thread.get_ident", "_dummy_threading",
    "_dummy_threading.__all__", "_hmac", "_interpchannels", "_interpqueues", "_interpreters", "_ios_support",
    "_ios_support.objc", "_opcode_metadata", "_opcode_metadata.HAVE_ARGUMENT",
    "_opcode_metadata.MIN_INSTRUMENTED_OPCODE", "_opcode_metadata._specializations",
    "_opcode_metadata._specialized_opmap", "_opcode_metadata.opmap", "_py_warnings", "_pyrepl.console",
    "_pyrepl.console.InteractiveColoredConsole", "_pyrepl.main", "_pyrepl.main.CAN_USE_PYREPL", "_pyrepl.pager",
    "_pyrepl.pager.get_pager", "_pyrepl.pager.pipe_pager", "_pyrepl.pager.plain", "_pyrepl.pager.plain_pager",
    "_pyrepl.pager.tempfile_pager", "_pyrepl.pager.tty_pager", "_pyrepl.readline", "_pyrepl.simple_interact",
    "_pyrepl.simple_interact._get_reader", "_pyrepl.simple_interact.run_multiline_interactive_console",
    "_pyrepl.unix_console", "_remote_debugging", "_sha256", "_sha512", "_sha512.sha512", "_suggestions",
    "_sysconfig", "_types", "_typing", "_winreg", "_winreg.CloseKey", "_winreg.HKEY_LOCAL_MACHINE",
    "_winreg.OpenKeyEx", "_winreg.QueryValueEx", "_wmi", "_zstd", "annotationlib", "asynchat", "asyncore",
    "compression", "comtypes.server.inprocserver", "distutils", "distutils.log", "dummy_threading",
    "dummy_threading.RLock", "imp", "java", "java.lang", "java.lang.Exception", "java.lang.System", "netbios",
    "org.python.core", "org.python.core.PyStringMap", "org.python.core.imp", "pep517", "pep517.build", "pep517.meta",
    "sitecustomize", "usercustomize", "vms_lib", "win32evtlog", "win32evtlogutil", "win32wnet",
})  # fmt: skip
